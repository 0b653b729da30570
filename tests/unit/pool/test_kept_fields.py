"""The objects of pools keep in Python only what C functions cannot change. Each field has its reason here."""

import dataclasses

import pytest

import memlake
from memlake.device.device import Device
from memlake.device.event import Event
from memlake.device.stream import Stream
from memlake.pool.graph_pool import GraphPool
from memlake.pool.object_state import ObjectState
from memlake.pool.peer_devices import PeerDevices
from memlake.pool.recording import Recording

REASONS = {
    memlake.Pool: {
        "__weakref__": "a reference of Python's",
        "_all": "the devices of a core pool are fixed when it is made; the objects must live as long as the pool",
        "_policy": "the policy of a core pool is fixed when it is made",
        "_total": "the memory of the devices, or of the machine",
        "_state": "see ObjectState",
    },
    ObjectState: {
        "fallback_reason": "it is found while Python makes the pool",
        "decay": "a thread of Python's releases the memory, as long as the object exists",
        "on_failure": "functions of Python's; only Python calls them",
        "high_mark": "only Python calls the function for it",
        "on_high": "a function of Python's",
        "is_default": "only memlake.default_pool makes default pools",
        "is_borrowed": "it says how the object was made",
        "recording": "only Python starts and stops recordings",
    },
    PeerDevices: {"_pool": "the pool that is asked"},
    GraphPool: {
        "_pool": "the pool of the graph pool is fixed",
        "_id": "the numbers of a graph pool are fixed",
        "_stream": "it keeps the stream of the program alive",
        "_handle": "the handle of that stream",
        "_entries": "which thread entered which block; whether requests go there is asked of the core",
        "_is_open": "it says whether this object was closed; C functions name the graph pool and not the object",
    },
    Recording: {
        "__weakref__": "a reference of Python's",
        "_pool": "the pool that is recorded; None after stop()",
        "_path": "the file that the program named",
        "_metadata": "what the pool was when the recording began",
        "_trace": "the result",
    },
    memlake.Buffer: {
        "__weakref__": "a reference of Python's",
        "_live_views": "views that Python gave away",
    },
    Device: {
        "__weakref__": "a reference of Python's",
        "_core": "the device of the core",
        "_key": "the library and the ordinal of a device are fixed",
        "_name": "the name of a device is fixed",
        "_default_stream": "an object of the default stream, whose handle is fixed",
        "_told_of_waits": "which pools Python tells of its own waits",
        "_views": "views that Python gave away",
    },
    Stream: {
        "__weakref__": "a reference of Python's",
        "_device": "the device of a stream is fixed",
        "_handle": "the handle of a stream is fixed",
        "_owner": "the owner of the stream in the core",
        "_is_open": "it says whether this object was closed; no function of memlake.h closes streams",
    },
    Event: {
        "__weakref__": "a reference of Python's",
        "_device": "the device of an event is fixed",
        "_owner": "the owner of the event in the core",
        "_is_timed": "it is fixed when the event is made",
        "_is_open": "it says whether this object was closed; no function of memlake.h closes events",
    },
}


def fields_of(kind):
    """The names of all fields that an object of the class has in Python."""
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    slots = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    return {name for own in slots for name in ((own,) if isinstance(own, str) else own)}


def without_reason(kind, reasons):
    return sorted(fields_of(kind) - set(reasons))


@pytest.mark.parametrize("kind", REASONS, ids=lambda kind: kind.__name__)
def test_every_field_has_a_reason_why_c_cannot_change_it(kind):
    assert without_reason(kind, REASONS[kind]) == []
    assert sorted(set(REASONS[kind]) - fields_of(kind)) == []
    assert "__dict__" not in dir(kind)  # other fields cannot be added


def test_a_field_without_a_reason_is_found():
    class Copying(memlake.Pool):
        __slots__ = ("_limit",)

    assert without_reason(Copying, REASONS[memlake.Pool]) == ["_limit"]

    @dataclasses.dataclass
    class CopyingState(ObjectState):
        peers: frozenset = frozenset()

    assert without_reason(CopyingState, REASONS[ObjectState]) == ["peers"]
