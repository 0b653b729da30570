"""The core's readers against the simple ones in tests/helpers and against Python's unpickler, on the same files."""

import io
import pickle
import struct

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from helpers.reference_pickle import RefusedError, read_reference
from helpers.reference_snapshot import rows_of
from memlake import Trace, _native

RELAXED = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FEWER = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class PlainUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def check_agreement(data):
    """Returns what both readers read, or None if both refuse it for the same reason at the same byte.

    The representations are compared: they are equal for NaN and for cycles, and tell 1 from True and from 1.0.
    """
    found = _native.read_pickle(data, 2**30, None)
    refused, wanted = None, None
    try:
        wanted = read_reference(data)
    except RefusedError as error:
        refused = error
    if refused is not None:
        assert isinstance(found, _native.PickleFault), f"only the reference refuses it: {refused}"
        assert (found.kind, found.at) == (refused.kind, refused.at)
        return None
    assert isinstance(found, _native.PickleNode), f"only the core refuses it: {found.kind} at {found.at}"
    plain = found.plain()
    assert repr(plain) == repr(wanted)
    return plain


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**127), 2**127 - 1) | st.integers(-300, 70000) | st.floats()
    | st.text(max_size=5) | st.text(min_size=250, max_size=260),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(max_size=3), inner, max_size=5)
    | st.lists(inner, max_size=4).map(tuple),
    max_leaves=30,
)  # fmt: skip


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
@RELAXED
def test_all_read_the_same_from_a_good_pickle(value, protocol):
    data = pickle.dumps(value, protocol)
    assert repr(check_agreement(data)) == repr(pickle.loads(data))


# Opcodes with arguments that often fit together. Memo places are small, so that they often exist.
SMALL = st.integers(0, 4)
OPCODES = st.one_of(
    st.sampled_from([b"(", b"}", b"]", b"u", b"s", b"e", b"a", b"t", b"N", b")", b"\x88", b"\x89", b"\x85", b"\x86",
                     b"\x87", b"\x94", b".", b"}\x94", b"]\x94", b"(", b"}", b"]"]),
    SMALL.map(lambda n: b"h%c" % n),
    SMALL.map(lambda n: b"j" + struct.pack("<I", n)),
    SMALL.map(lambda n: b"q%c" % n),
    SMALL.map(lambda n: b"r" + struct.pack("<I", n)),
    st.integers(0, 255).map(lambda n: b"K%c" % n),
    st.integers(0, 65535).map(lambda n: b"M" + struct.pack("<H", n)),
    st.integers(-(2**31), 2**31 - 1).map(lambda n: b"J" + struct.pack("<i", n)),
    st.binary(max_size=18).map(lambda part: b"\x8a%c" % len(part) + part),
    st.binary(max_size=18).map(lambda part: b"\x8b" + struct.pack("<I", len(part)) + part),
    st.floats().map(lambda number: b"G" + struct.pack(">d", number)),
    st.sampled_from([b"a", b"b", b"c", b"frames"]).map(lambda text: b"\x8c%c" % len(text) + text),
    st.binary(max_size=8).map(lambda text: b"X" + struct.pack("<I", len(text)) + text),
    st.text(max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass")).map(
        lambda text: b"\x8d" + struct.pack("<Q", len(text)) + text),
    st.just(b"\x95" + bytes(8)),
    st.integers(0, 7).map(lambda n: b"\x80%c" % n),
    st.binary(min_size=1, max_size=2),
)  # fmt: skip


@given(st.lists(OPCODES, max_size=40))
@RELAXED
@example([b"}", b"(", b"\x8c\x01a", b"N", b"\x8c\x01a", b"K\x05", b"u"])
@example([b"}", b"\x8c\x01a", b"N", b"s", b"\x8c\x01b", b"N", b"s", b"\x8c\x01a", b"K\x01", b"s"])
@example(
    [b"]\x94", b"(", b"K\x01", b"K\x02", b"e", b"h\x00", b"K\x03", b"a", b"]", b"(", b"K\x01", b"K\x02", b"e", b"\x86"]
)
@example([b"]\x94", b"h\x00", b"\x85\x94", b"0"])
def test_both_agree_on_any_opcodes(opcodes):
    data = b"\x80\x04" + b"".join(opcodes) + b"."
    plain = check_agreement(data)
    try:
        theirs = PlainUnpickler(io.BytesIO(data)).load()
    except Exception:
        return
    # Python reads more than plain data. What both read is the same.
    if plain is not None:
        assert repr(plain) == repr(theirs)


@given(st.binary(max_size=40))
@RELAXED
@example(b"\xed\xa0\x80")
@example(b"a" * 9 + b"\xe2\x82")
@example(b"\xf4\x90\x80\x80")
@example(b"\xed\xa0A")
@example(b"\xe0\x80\x80")
def test_both_agree_on_the_encoding_of_texts(text):
    check_agreement(b"X" + struct.pack("<I", len(text)) + text + b".")


@pytest.mark.parametrize("name", ["snapshot, protocol 4", "snapshot, protocol 2", "list of segments"])
def test_both_agree_on_every_prefix_and_on_every_wrong_byte(small_files, name):
    content = small_files[name]
    assert check_agreement(content) is not None
    for place in range(len(content)):
        check_agreement(content[:place])
        check_agreement(content[:place] + content[place + 1 :])
        for bits in (0xFF, 0x01, 0x20):
            check_agreement(content[:place] + bytes([content[place] ^ bits]) + content[place + 1 :])


@pytest.mark.parametrize("name", ["snapshot, protocol 4", "snapshot, protocol 2"])
@given(data=st.data())
@FEWER
def test_both_agree_on_a_file_with_random_changes(small_files, name, data):
    content = bytearray(small_files[name])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 12))
        content[place : place + length] = data.draw(st.binary(max_size=12) | OPCODES)
    check_agreement(bytes(content))


def test_equal_lists_stay_separate_lists():
    # The core stores equal lists once. A list that is appended to later must not change the others.
    data = b"\x80\x04]\x94(K\x01K\x02e]\x94(K\x01K\x02eh\x00K\x03ah\x01\x87."
    assert check_agreement(data) == ([1, 2], [1, 2, 3], [1, 2])


ADDRESSES = st.integers(0, 6).map(lambda place: place * 512)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "action": st.sampled_from(
                ["alloc", "alloc", "alloc", "free_requested", "free_completed", "free", "segment_alloc", "oom", "odd"]
            ),
            "addr": ADDRESSES,
            "size": st.integers(0, 4096),
            "stream": st.sampled_from([0, 0, 1, 7, -1]),
        }
    ),
    max_size=40,
)  # fmt: skip
SEGMENTS = st.lists(
    st.fixed_dictionaries(
        {
            "address": ADDRESSES,
            "total_size": st.integers(0, 8192),
            "stream": st.integers(0, 9),
            "blocks": st.lists(
                st.fixed_dictionaries(
                    {
                        "size": st.sampled_from([512, 1024]),
                        "state": st.sampled_from(["active_allocated", "inactive", "active_pending_free"]),
                    },
                    optional={"requested_size": st.integers(0, 512), "address": ADDRESSES},
                ),
                max_size=4,
            ),
        }
    ),
    max_size=3,
)


@given(EVENTS, SEGMENTS)
@RELAXED
def test_both_make_the_same_rows(tmp_path, short, segments):
    events = []
    for event in short:
        # "free" stands for a free that is completed at once, the usual case.
        pair = ("free_requested", "free_completed") if event["action"] == "free" else (event["action"],)
        events += [event | {"action": action} for action in pair]
    if not events and not segments:
        return
    (tmp_path / "file").write_bytes(pickle.dumps({"segments": segments, "device_traces": [events]}, 4))
    trace = Trace.load(tmp_path / "file")
    handles = trace.metadata["streams"]
    # A cell without a meaning is 0 in a trace: a free has no stream, and a free is no row with bytes.
    ours = [
        (int(row.op), row.id, row.bytes, handles[row.stream], int(address))
        for row, address in zip(trace, trace.recorded.addresses, strict=True)
    ]
    assert ours == [tuple(row) for row in rows_of(events, segments)]
