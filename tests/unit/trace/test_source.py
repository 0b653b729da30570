import errno
import gzip
import os
import pickle
import socket
import zlib

import pytest

from memlake import ConfigError, Trace, TraceError
from memlake.trace.source import read_source


def test_gzip_is_unpacked(load):
    assert load(gzip.compress(b"a 0 1 0\n")) == load("a 0 1 0\n")


def test_gzip_members_follow_each_other_and_may_be_padded(load):
    content = gzip.compress(b"a 0 1 0\n") + gzip.compress(b"") + gzip.compress(b"f 0\n") + b"\0" * 100
    assert load(content) == load("a 0 1 0\nf 0\n")


def test_a_large_gzip_file_is_unpacked_whole(load):
    text = b"".join(b"a %d %d 0\n" % (n, n * 7919 % 100_000) for n in range(50_000))
    assert load(gzip.compress(text)) == load(text)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is empty", id="nothing"),
        pytest.param(gzip.compress(b""), "is empty", id="gzip of nothing"),
        pytest.param(b"\x1f\x8b", "it ends in the middle", id="the first two bytes"),
        pytest.param(gzip.compress(b"y\n" * 1000)[:-10], "it ends in the middle", id="without the end"),
        pytest.param(
            gzip.compress(b"y\n" * 1000)[:-8] + b"12345678", "is not a whole gzip file", id="a wrong checksum"
        ),
        pytest.param(gzip.compress(b"y\n") + b"rubbish", "is not a whole gzip file", id="rubbish after the end"),
        pytest.param(gzip.compress(gzip.compress(b"y\n")), "is gzip within gzip", id="gzip of gzip"),
    ],
)
def test_broken_files_are_refused(load, content, reason):
    with pytest.raises(TraceError, match=reason) as caught:
        load(content)
    assert caught.value.path.endswith("file")


def test_a_gzip_bomb_is_refused_by_its_first_bytes(load):
    with pytest.raises(TraceError, match="is no file that memlake knows"):
        load(gzip.compress(bytes(50_000_000)))


def test_a_gzip_bomb_of_good_rows_is_refused_by_its_ratio(load, monkeypatch):
    monkeypatch.setattr("memlake.trace.source.SMALL_CHANGE", 2**20)
    with pytest.raises(TraceError, match="unpacks to more than 100 times its size"):
        load(gzip.compress(b"y\n" * 4_000_000))


def test_a_file_of_very_many_gzip_members_is_refused(load, monkeypatch):
    monkeypatch.setattr("memlake.trace.source.MOST_GZIP_MEMBERS", 50)
    with pytest.raises(TraceError, match="it has more than 50 members"):
        load(gzip.compress(b"y\n") + gzip.compress(b"") * 100)


def test_a_file_larger_than_the_limit_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"y\n" * 100_000)
        file.truncate(2**40)
    with pytest.raises(
        TraceError, match="is too large: 1 TiB or more, and 4 GiB are allowed; hint: raise memory_limit"
    ):
        Trace.load(path)


def test_what_unpacks_beyond_the_limit_is_refused(load):
    random = os.urandom(20_000).hex().encode()
    with pytest.raises(TraceError, match=r"is too large: .* raise memory_limit"):
        load(gzip.compress(b"#" + random), memory_limit="32KiB")


@pytest.mark.parametrize("limit", [-1, "much"])
def test_the_limit_is_a_size(load, limit):
    with pytest.raises(ConfigError, match="memory_limit"):
        load("y\n", memory_limit=limit)


def test_what_is_not_there_is_a_trace_error(tmp_path):
    with pytest.raises(TraceError, match="nothing: cannot be read: there is no such file") as missing:
        Trace.load(tmp_path / "nothing")
    error = pickle.loads(pickle.dumps(missing.value))
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.filename, str(error)) == (errno.ENOENT, str(tmp_path / "nothing"), str(missing.value))


def test_a_name_that_is_no_name_is_a_trace_error():
    with pytest.raises(TraceError, match="is no file name"):
        Trace.load("a\0b")


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(TraceError, match="is a directory; hint: name a file in it"):
        Trace.load(tmp_path)


def test_a_fifo_is_refused_without_waiting_for_its_writer(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TraceError, match="is no regular file"):
        Trace.load(tmp_path / "fifo")


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(TraceError, match="is no regular file"):
            Trace.load("socket")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty"])
def test_a_device_is_refused(device):
    with pytest.raises(TraceError, match="is no regular file"):
        Trace.load(device)


def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = tmp_path / "secret"
    path.write_text("y\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(TraceError, match="cannot be read: Permission denied"):
        Trace.load(path)


def test_the_error_carries_path_place_reason_and_hint(load):
    with pytest.raises(TraceError) as caught:
        load("y\nx\n")
    error = caught.value
    assert str(error) == f"{error.path}: {error.place}: {error.reason}; hint: {error.hint}"
    assert error.place == "line 2"


def test_raw_deflate_is_not_gzip(load):
    with pytest.raises(TraceError):
        load(zlib.compress(b"y\n"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("change", ["grows", "shrinks", "is written again"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, pack, change):
    path = tmp_path / "file"
    content = pack(b"a 0 1 0\n" * 1000)
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))

    def change_it(head):
        if change == "grows":
            with path.open("ab") as file:
                file.write(pack(b"f 0\n"))
        elif change == "shrinks":
            os.truncate(path, len(content) // 2)
        else:
            path.write_bytes(content)

    # A gzip file that ends early may be refused for that reason.
    with pytest.raises(TraceError, match=r"changed while it was read|it ends in the middle"):
        read_source(path, 2**30, change_it)


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path):
    (tmp_path / "file").write_bytes(b"y\n")
    (tmp_path / "new").write_bytes(b"e\n")
    source, _ = read_source(tmp_path / "file", 2**30, lambda head: (tmp_path / "new").replace(tmp_path / "file"))
    assert source.data == b"y\n"
