import os
import pickle
import pickletools
import struct
import subprocess
import sys

import pytest

from memlake import TraceError, _native
from memlake.trace.source import Source
from memlake.trace.unpickling import unpickle


def read_node(data, memory_limit=2**32):
    return unpickle(Source("file.pickle", data, memory_limit))


def read(data, memory_limit=2**32):
    return read_node(data, memory_limit).plain()


PLAIN = {
    "numbers": [0, 1, -1, 255, 256, 65535, 65536, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**100, 1.5, float("inf")],
    "texts": ["", "a", "ü", "\ud800", "x" * 300, "y" * 70000],
    "constants": [None, True, False],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "nested": {"a": {"b": [{"c": []}]}},
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_as_python_would(protocol):
    assert read(pickle.dumps(PLAIN, protocol)) == PLAIN
    assert read(pickletools.optimize(pickle.dumps(PLAIN, protocol))) == PLAIN


def test_long_lists_and_dicts_are_written_in_parts():
    data = {"list": list(range(5000)), "dict": {str(n): n for n in range(5000)}}
    assert read(pickle.dumps(data, 4)) == data


def test_what_is_shared_stays_shared():
    shared = ["x"]
    result = read(pickle.dumps({"a": shared, "b": shared}, 4))
    assert result["a"] is result["b"]


def test_a_list_may_contain_itself():
    ring = []
    ring.append(ring)
    assert read(pickle.dumps(ring, 4))[0][0] is not None


def test_every_frame_is_kept_and_equal_stacks_are_equal():
    frames = [{"filename": f"/home/{name}", "line": 2, "name": "f"} for name in ("a.cpp", "b.py", "c.py")]
    events = [{"frames": list(frames), "other": [frames[0]]} for _ in range(50)]
    events += [{"frames": []}, {"frames": frames[::-1]}, {"frames": frames[:1] * 5000}]
    for protocol in (2, 4):
        assert read(pickle.dumps(events, protocol)) == events


class Global:
    """What is pickled as a reference to something importable."""


def evil(opcodes):
    return b"\x80\x02" + opcodes + b"."


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        (evil(b"cos\nsystem\n(X\x02\x00\x00\x00idtR"), 2, r"the global 'os.system' \(GLOBAL\)"),
        (evil(b"(ios\nsystem\n"), 3, r"the global 'os.system' \(INST\)"),
        (evil(b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93"), 20, r"the global 'os.system' \(STACK_GLOBAL\)"),
        (evil(b"]\x93"), 3, "the opcode STACK_GLOBAL"),
        (evil(b"\x82\x01"), 2, "the opcode EXT1"),
        (evil(b"\x83\x01\x00"), 2, "the opcode EXT2"),
        (evil(b"\x84\x01\x00\x00\x00"), 2, "the opcode EXT4"),
        (evil(b"P1\n"), 2, "the opcode PERSID"),
        (evil(b"K\x01Q"), 4, "the opcode BINPERSID"),
        (evil(b"K\x01)R"), 5, "the opcode REDUCE"),
        (evil(b"}}b"), 4, "the opcode BUILD"),
        (evil(b"K\x01)\x81"), 5, "the opcode NEWOBJ"),
        (evil(b"K\x01)}\x92"), 6, "the opcode NEWOBJ_EX"),
        (evil(b"(K\x01o"), 5, "the opcode OBJ"),
        (evil(b"]2"), 3, "the opcode DUP"),
        (evil(b"\x8f"), 2, "the opcode EMPTY_SET"),
        (evil(b"(\x91"), 3, "the opcode FROZENSET"),
        (evil(b"\x97"), 2, "the opcode NEXT_BUFFER"),
        (evil(b"\x96" + struct.pack("<Q", 2**60)), 2, "the opcode BYTEARRAY8"),
        (evil(b"\x8e" + struct.pack("<Q", 2**60)), 2, "the opcode BINBYTES8"),
        (evil(b"C\x01a"), 2, "the opcode SHORT_BINBYTES"),
        (evil(b"I1\n"), 2, "it is a pickle of protocol 0"),
        (evil(b"\xff"), 2, "0xff is no pickle opcode"),
        (b"\x80\x06.", 0, "pickle protocol 6 is not known"),
        (evil(b"\x8b" + struct.pack("<I", 2**31)), 2, "a number has 2147483648 bytes, and 16 are the most"),
        (evil(b"\x8a\xff" + b"\x7f" * 255), 2, "a number has 255 bytes"),
        (evil(b"\x8d" + struct.pack("<Q", 2**63)), 2, "a text of 9223372036854775808 bytes goes beyond the end"),
        (evil(b"X" + struct.pack("<I", 2**32 - 1)), 2, "a text of 4294967295 bytes goes beyond the end"),
        (evil(b"X\x02\x00\x00\x00\xff\xff"), 7, "a text is not UTF-8"),
        (evil(b"]r" + struct.pack("<I", 2**32 - 1)), 3, "place 4294967295 of the memo is taken out of turn"),
        (evil(b"]q\x00q\x00"), 5, "place 0 of the memo is taken out of turn"),
        (evil(b"(" * 101), 102, "is nested more than 100 times"),
        (evil(b"}K\x01K\x02s"), 7, "a dict has a key of type int, and not a string"),
        (evil(b"}(K\x01\x85K\x02u"), 9, "a dict has a key of type tuple"),
        (evil(b"}(]]u"), 6, "a dict has a key of type list"),
        (evil(b"](X\x00\x00\x00\x00u"), 9, "entries without a dict"),
        (evil(b"}(X\x00\x00\x00\x00u"), 9, "entries without a dict"),
        (evil(b"}]a"), 4, "items without a list"),
        (evil(b"h\x00" + b" " * 40), 2, "it refers to what is not there"),
        (evil(b"u" + b" " * 40), 2, "it refers to what is not there"),
        (evil(b"\x87" + b" " * 40), 2, "it refers to what is not there"),
        (b"\x80\x02", 2, "the pickle ends in the middle"),
        (b"\x80\x02]q", 3, "the pickle ends in the middle"),
        (b"\x80\x02.", 2, "the pickle ends in the middle"),
    ],
)
def test_anything_else_is_refused_with_its_byte(data, place, reason):
    with pytest.raises(TraceError, match=reason) as caught:
        read(data)
    assert caught.value.place == f"byte {place}"
    assert caught.value.path == "file.pickle"


@pytest.mark.parametrize(
    "value", [Global(), Global, os.system, {1, 2}, frozenset(), b"bytes", bytearray(9), 1j, range(3)]
)
def test_python_objects_are_refused(value):
    for protocol in (2, 3, 4, 5):
        with pytest.raises(TraceError, match="a snapshot has plain data only"):
            read(pickle.dumps({"segments": value}, protocol))


def test_nothing_is_imported():
    before = set(sys.modules)
    with pytest.raises(TraceError, match=r"the global 'antigravity\.fly'"):
        read(evil(b"cantigravity\nfly\n"))
    assert set(sys.modules) - before <= {"encodings.idna"}
    assert "antigravity" not in sys.modules


def test_nested_tuples_are_never_hashed():
    # Each level holds the one before twice: to hash the last one takes 2^60 steps.
    levels = b"".join(b"q%ch%c\x86" % (level, level) for level in range(60))
    with pytest.raises(TraceError, match="a key of type tuple"):
        read(evil(b"})" + levels + b"K\x01s"))


@pytest.mark.parametrize("nesting", [b"]" * 200_000 + b"a" * 199_999, b")" + b"\x85" * 200_000])
def test_deep_nesting_costs_no_stack(nesting):
    deep = read(evil(nesting))
    assert len(deep) <= 1


def nested_entries(count):
    """Dicts that cost the reader most for their bytes: each has one key twice."""
    return b"]\x8c\x01a\x94(" + b"}(h\x00Nh\x00Nu" * count + b"e"


BOMBS = {
    "dicts": b"}" * 2**20,
    "lists": b"]" * 2**20,
    "tuples": b")" + b"\x85" * 2**20,
    "constants": b"N" * 2**22,
    "marks and constants": b"(" + b"N" * 2**22,
    "dicts with a key twice": nested_entries(2**17),
    "memo": b"]" + b"\x94" * 2**21,
    "growing lists": b"]\x94N" + b"a]\x94NaN" * 2**17,
    "texts": b"".join(b"\x8c\x05%05x" % number for number in range(2**18)),
    "floats": (b"G" + bytes(8)) * 2**18,
    "numbers": (b"\x8a\x10" + b"\x7f" * 16) * 2**17,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_that_grows_in_memory_is_refused_in_time(name):
    data = evil(BOMBS[name])
    with pytest.raises(TraceError, match="takes more memory than is allowed for a file of"):
        read_node(data, memory_limit=len(data) + 2**19)


# The process may not have more memory than the reader is allowed, except for small tables and the reader's stack.
BOUNDED = """
import resource, sys
from memlake.trace.source import Source
from memlake.trace.unpickling import unpickle
from memlake import TraceError, _native
data = sys.stdin.buffer.read()
allowed = 16 * 2**20
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 3 * allowed, used + 3 * allowed))
try:
    unpickle(Source("file", data, len(data) + allowed))
except TraceError as error:
    print(error.reason)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_the_reader_counts_the_memory_that_it_takes(name):
    data = evil(BOMBS[name] * (8 if name != "tuples" else 1))
    done = subprocess.run([sys.executable, "-c", BOUNDED], input=data, capture_output=True, check=False)
    assert done.stderr == b""
    assert b"takes more memory than is allowed" in done.stdout


def test_the_limit_of_the_caller_counts():
    with pytest.raises(TraceError, match="raise memory_limit"):
        read(pickle.dumps([{} for _ in range(1000)], 4), memory_limit=20_000)


def test_objects_for_python_count_as_well():
    data = pickle.dumps([{} for _ in range(10_000)], 4)
    node = read_node(data, memory_limit=2**20)
    with pytest.raises(MemoryError, match="more memory than is allowed"):
        node.plain()


def test_the_caller_hears_of_progress_and_may_stop():
    data = pickle.dumps(list(range(3_000_001)), 4)
    heard = []
    node = unpickle(Source("file", data, 2**32), lambda done, total: heard.append((done, total)))
    assert len(node) == 3_000_001
    assert heard == sorted(heard)
    assert len(heard) >= 2
    assert all(0 < done <= total == len(data) for done, total in heard)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpickle(Source("file", data, 2**32), stop)


def test_a_node_of_one_pickle_is_refused_for_another():
    one, other = read_node(pickle.dumps([{}], 4)), read_node(pickle.dumps({"segments": []}, 4))
    reader = _native.SnapshotReader(one)
    with pytest.raises(TypeError, match="of the reader's pickle"):
        reader.read_segments(other.get("segments"))
    with pytest.raises(IndexError):
        one.item(1)
    assert one.get("segments") is None
    assert other.keys() == ["segments"]
    assert len(other) == 1
