import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from memlake import Trace, TraceError
from memlake.trace import Op

COLUMNS = {
    "op": np.array([0, 1], np.uint8),
    "id": np.array([0, 0], np.uint32),
    "bytes": np.array([1000, 0], np.uint64),
    "stream": np.array([0, 0], np.uint8),
    "tag": np.array([1, 0], np.uint16),
    "tags": np.array(json.dumps(["", "mm"])),
    "meta": np.array(json.dumps({"model": "gpt"})),
}


def npz(**changes):
    """A file as NumPy writes it."""
    file = io.BytesIO()
    arrays = {name: array for name, array in (COLUMNS | changes).items() if array is not None}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def zipped(members):
    """A zip with any members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def test_a_file_of_numpys_is_read(load):
    trace = load(npz())
    assert trace == Trace([0, 1], [0, 0], [1000, 0], tag=[1, 0], tags=["", "mm"], metadata={"model": "gpt"})


def test_our_file_is_read_by_numpy(tmp_path, load):
    load(npz(time=np.array([5, 6]))).save(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        assert {name: arrays[name].dtype.str for name in arrays.files if name not in ("tags", "meta")} == {
            "op": "|u1",
            "id": "<u4",
            "bytes": "<u8",
            "stream": "|u1",
            "tag": "<u2",
            "time": "<i8",
        }
        assert arrays["bytes"].tolist() == [1000, 0]
        assert json.loads(str(arrays["tags"])) == ["", "mm"]
        assert json.loads(str(arrays["meta"])) == {"model": "gpt"}


def test_equal_traces_give_equal_bytes(tmp_path, load):
    load(npz()).save(tmp_path / "one.npz")
    load(npz(op=COLUMNS["op"].astype(">i8"), meta=np.array('{ "model" : "gpt" }'))).save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_wide_columns_are_written_wide(tmp_path):
    tags = [str(number) for number in range(70000)]
    trace = Trace([Op.ALLOCATE] * 2, [0, 1], [1, 2], [0, 300], tag=[0, 69999], tags=tags)
    trace.save(tmp_path / "wide.npz")
    assert Trace.load(tmp_path / "wide.npz") == trace


@pytest.mark.parametrize("missing", ["tag", "tags", "meta"])
def test_some_members_may_be_missing(load, missing):
    assert len(load(npz(**{missing: None, "tag": None}))) == 2


def test_other_members_are_ignored(load):
    assert load(npz(note=np.zeros(5))) == load(npz())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": None}, "has no column op"),
        ({"bytes": None, "stream": None}, "has no column bytes, stream"),
        ({"bytes": np.array([1.0, 2.0])}, "member bytes.npy: has type <f8 and is not a list of whole numbers"),
        ({"bytes": np.array([[1, 2]])}, "member bytes.npy: is no plain array of one dimension"),
        ({"bytes": np.array(["1", "2"])}, "member bytes.npy: has type <U1"),
        ({"bytes": np.array([1], np.uint64)}, "column bytes has 1 rows"),
        ({"op": np.array([0, 11], np.uint8)}, "row 1: op 11 is not between"),
        ({"op": np.array([1, 1], np.uint8)}, "row 0: id 0 is freed, but was not allocated"),
        ({"bytes": np.array([2**63, 0], np.uint64)}, "row 0: bytes 9223372036854775808 is not between"),
        ({"bytes": np.array([-1, 0])}, "row 0: bytes -1 is not between"),
        ({"stream": np.array([70000, 0])}, "row 0: stream 70000 is not between"),
        ({"tag": np.array([7, 0])}, "row 0: tag 7 is not between 0 and 1"),
        ({"tags": np.array("[1")}, "member tags.npy: is no JSON"),
        ({"tags": np.array("{}")}, "member tags: must be a JSON list of strings"),
        ({"tags": np.array(["a"])}, "member tags.npy: has type <U1 and is not one text"),
        ({"meta": np.array("[]")}, "member meta: must be a JSON object"),
        ({"meta": np.array('{"a": NaN}')}, "member meta.npy: is no JSON: 'NaN is no number'"),
        ({"meta": np.array('{"a": ' + "9" * 5000 + "}")}, "more than 40 digits"),
        ({"meta": np.array("[" * 100_000)}, "member meta.npy: is no JSON"),
        ({"meta": np.array(5)}, "member meta.npy: has type <i8 and is not one text"),
    ],
)
def test_a_wrong_member_is_named(load, changes, reason):
    with pytest.raises(TraceError, match=reason):
        load(npz(**changes))


def test_an_array_of_objects_is_refused_and_not_unpickled(load):
    file = io.BytesIO()
    np.savez(file, **(COLUMNS | {"bytes": np.array([1, None], object)}))
    with pytest.raises(TraceError, match=r"member bytes.npy: has type \|O"):
        load(file.getvalue())


def members():
    return [(f"{name}.npy", npy(array)) for name, array in COLUMNS.items()]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused(load):
    with pytest.raises(TraceError, match=r"member op\.npy: is there twice"):
        load(zipped([*members(), ("op.npy", npy(COLUMNS["op"]))]))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is no NumPy array"),
        (b"\x93NUMPY\x01\x00", "is no NumPy array"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, "is no plain array"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + b" " * 100, "is no plain array"),
        (npy(COLUMNS["op"])[:-1], "claims 2 entries of 1 bytes and has 1 bytes"),
        (npy(COLUMNS["op"]).replace(b"(2,)", b"(9" + b"9" * 16 + b",)")[:-19], "is no plain array|claims 9"),
        (npy(COLUMNS["op"]).replace(b"'|u1'", b"'|u3'"), r"has type \|u3"),
        (npy(COLUMNS["op"]).replace(b"'|u1'", b"'|V0'"), r"has type \|V0"),
        (npy(COLUMNS["op"]).replace(b"(2,)", b"(2 )"), "is no plain array"),
        (npy(COLUMNS["op"]).replace(b"False", b"exit()"), "is no plain array"),
    ],
)
def test_a_broken_array_is_refused(load, content, reason):
    with pytest.raises(TraceError, match=reason):
        load(zipped([*((n, c) for n, c in members() if n != "op.npy"), ("op.npy", content)]))


def test_a_zip_that_claims_to_be_huge_is_refused_before_it_is_unpacked(load):
    bomb = zipped([*((n, c) for n, c in members() if n != "op.npy"), ("op.npy", npy(np.zeros(64 * 2**20, np.uint8)))])
    assert len(bomb) < 100_000
    with pytest.raises(TraceError, match=r"member op\.npy: claims to unpack to 64 MiB, which is more than is allowed"):
        load(bomb, memory_limit="32MiB")


def test_a_zip_that_claims_less_than_it_unpacks_to_is_refused(load):
    bomb = bytearray(zipped([*members()[1:], ("op.npy", npy(np.zeros(2**20, np.uint8)))]))
    directory = bomb.rfind(b"PK\1\2")
    struct.pack_into("<I", bomb, directory + 24, 200)
    with pytest.raises(TraceError, match=r"is not a whole zip file|claims 1048576 entries"):
        load(bytes(bomb))


def test_a_directory_that_is_too_large_is_refused_before_it_is_read(load):
    huge = zipped([("op.npy", b"")] + [(f"{number:060d}", b"") for number in range(1000)])
    with pytest.raises(TraceError, match="its directory is too large"):
        load(huge)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packing_methods_without_a_bound_are_refused(load, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members():
            archive.writestr(name, content)
    with pytest.raises(TraceError, match="is packed with method"):
        load(file.getvalue())


def test_an_encrypted_member_is_refused(load):
    content = bytearray(zipped(members()))
    for place in range(len(content) - 4):
        if content[place : place + 4] == b"PK\1\2":
            content[place + 8] |= 1
        elif content[place : place + 4] == b"PK\3\4":
            content[place + 6] |= 1
    with pytest.raises(TraceError, match="is not a whole zip file"):
        load(bytes(content))


def test_a_file_that_would_need_more_memory_than_allowed_is_refused_before_it_is_unpacked(load):
    count = 1_000_000
    packed = npz(
        op=np.full(count, Op.STEP, np.uint8),
        id=np.zeros(count, np.uint32),
        bytes=np.zeros(count, np.uint64),
        stream=np.zeros(count, np.uint8),
        tag=None,
        tags=None,
    )
    assert len(packed) < 100_000
    tracemalloc.start()
    with pytest.raises(TraceError, match=r"has 1000000 rows and needs about 89\.\d+ MiB of memory, and 64 MiB are"):
        load(packed, memory_limit="64MiB")
    assert tracemalloc.get_traced_memory()[1] < count
    tracemalloc.stop()
    assert len(load(packed, memory_limit="100MiB")) == count


def test_texts_count_with_the_objects_that_they_become(load):
    tags = np.array(json.dumps(["ab"] * 100_000))
    with pytest.raises(TraceError, match="needs about"):
        load(npz(tags=tags), memory_limit="16MiB")
    assert len(load(npz(tags=tags), memory_limit="32MiB").tags) == 100_000
