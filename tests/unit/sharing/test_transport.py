"""What travels over the socket: shares of any number of chunks, and everything that is none."""

import os
import socket
import struct
from array import array
from dataclasses import replace

import pytest

import memlake
from memlake import sharing
from memlake.errors import ConfigError
from memlake.sharing.layout import HEADER_SIZE, Layout, Run, layout_of, read_header, read_table
from memlake.sharing.transport import close_all, receive_share, send_share

MIB = 2**20
GOOD = Layout(5 * MIB, 0x1234000, True, (b"u" * 16, b"v" * 16), (Run(2, 0, 2 * MIB), Run(1, 1, 2 * MIB)))

pytestmark = pytest.mark.usefixtures("no_new_descriptors")


@pytest.fixture
def descriptors():
    """Open descriptors of something, and their number."""
    made = []

    def make(count):
        made.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(count))
        return made[-count:]

    yield make
    close_all(made)


def send_descriptors(over, descriptors, mark=b"d"):
    over.sendmsg([mark], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))])


def test_a_layout_is_written_and_read():
    chunks = [(2 * MIB, 0), (2 * MIB, 0), (2 * MIB, 1)]
    layout = layout_of(5 * MIB, 0x1234000, True, [b"u" * 16, b"v" * 16], chunks)
    assert layout == GOOD
    assert layout.chunks() == chunks
    header = read_header(layout.header())
    assert len(layout.table()) == header.table_size
    assert read_table(header, layout.table()) == layout


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
@pytest.mark.parametrize("count", [1, 253, 254, 600])
def test_any_number_of_descriptors_travels(descriptors, kind, count):
    layout = layout_of(count * MIB, 0, True, [b"u" * 16], [(MIB, 0)] * count)
    sent = descriptors(count)
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs:
        send_share(ours, layout, sent)
        received, got = receive_share(theirs)
    try:
        assert received == layout
        assert len(set(got) | set(sent)) == 2 * count
        assert not any(os.get_inheritable(descriptor) for descriptor in got)
    finally:
        close_all(got)


def changed_header(**numbers):
    fields = dict(
        zip(
            ("magic", "version", "emulated", "runs", "chunks", "devices", "nbytes", "address"),
            struct.unpack("<8sHHIIIQQ", GOOD.header()),
            strict=True,
        )
    )
    return struct.pack("<8sHHIIIQQ", *(fields | numbers).values())


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"magic": b"GET / HT"}, "no share of memlake: it begins with b'GET / HT'"),
        ({"version": 2}, "version 2, this memlake knows version 1"),
        ({"emulated": 7}, "emulated"),
        ({"runs": 0}, "3 chunks in 0 runs"),
        ({"runs": 4}, "3 chunks in 4 runs"),
        ({"chunks": 0}, "0 chunks"),
        ({"chunks": 2**32 - 1}, "chunks"),
        ({"devices": 0}, "0 devices"),
        ({"devices": 2**32 - 1}, "devices"),
        ({"nbytes": 0}, "0 bytes"),
        ({"nbytes": 2**64 - 1}, "bytes"),
    ],
)
def test_a_header_that_cannot_be_is_refused(ends, numbers, message):
    ends[0].sendall(changed_header(**numbers))
    with pytest.raises(ConfigError, match=message):
        sharing.receive(ends[1])


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (replace(GOOD, runs=(Run(0, 0, MIB), Run(3, 0, 2 * MIB))), "no chunks"),
        (replace(GOOD, runs=(Run(3, 2, 2 * MIB),)), "does not name"),
        (replace(GOOD, runs=(Run(3, 0, 0),)), "impossible size"),
        (replace(GOOD, runs=(Run(3, 0, 2**63),)), "impossible size"),
        (replace(GOOD, runs=(Run(3, 0, 2**62),)), "chunks have"),
        (replace(GOOD, nbytes=7 * MIB), "6 MiB together, the buffer 7 MiB"),
    ],
)
def test_a_table_that_cannot_be_is_refused(ends, layout, message):
    ends[0].sendall(layout.header() + layout.table())
    with pytest.raises(ConfigError, match=message):
        sharing.receive(ends[1])


def test_a_table_that_contradicts_its_header_is_refused(ends):
    ends[0].sendall(changed_header(chunks=4) + GOOD.table())
    with pytest.raises(ConfigError, match="another number of chunks"):
        sharing.receive(ends[1])


@pytest.mark.parametrize("length", [0, 1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 5])
def test_a_share_that_breaks_off_is_refused(ends, length):
    ours, theirs = ends
    ours.sendall((GOOD.header() + GOOD.table())[:length])
    ours.close()
    with pytest.raises(ConfigError, match="ended the connection after"):
        sharing.receive(theirs)


def test_descriptors_that_break_off_are_refused_and_closed(ends, descriptors):
    ours, theirs = ends
    layout = layout_of(300 * MIB, 0, True, [b"u" * 16], [(MIB, 0)] * 300)
    ours.sendall(layout.header() + layout.table())
    send_descriptors(ours, descriptors(253))
    ours.close()
    with pytest.raises(ConfigError, match="after 253 of 300 descriptors"):
        sharing.receive(theirs)


@pytest.mark.parametrize(("count", "mark"), [(2, b"d"), (4, b"d"), (3, b"x")])
def test_too_few_or_too_many_or_others_are_refused_and_closed(ends, descriptors, count, mark):
    ours, theirs = ends
    ours.sendall(GOOD.header() + GOOD.table())
    send_descriptors(ours, descriptors(count), mark)
    with pytest.raises(ConfigError, match=f"{count} descriptors came where 3 of 3"):
        sharing.receive(theirs)


def test_bytes_without_descriptors_reach_no_memory(ends):
    ours, theirs = ends
    ours.sendall(GOOD.header() + GOOD.table() + b"d")
    with pytest.raises(ConfigError, match="0 descriptors came where 3"):
        sharing.receive(theirs)


def test_descriptors_that_nobody_asked_for_are_closed(ends, descriptors):
    ours, theirs = ends
    sent = descriptors(5)
    ours.sendmsg(
        [b"no share at all, but descriptors come with it: all closed"],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", sent))],
    )
    with pytest.raises(ConfigError, match="no share of memlake"):
        sharing.receive(theirs)


def test_a_message_that_is_too_long_is_refused():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(GOOD.header() + GOOD.table())  # one message where there should be two
        with pytest.raises(ConfigError, match="too long"):
            sharing.receive(theirs)


def test_a_descriptor_that_is_no_memory_is_found_when_it_is_opened(gpu, ends, descriptors):
    uuid = gpu._core.uuid()
    layout = layout_of(2 * MIB, 0, True, [uuid], [(2 * MIB, 0)])
    send_share(ends[0], layout, descriptors(1))
    with sharing.receive(ends[1]) as share, pytest.raises(ConfigError, match="chunk 0 of 1 cannot be opened as device"):
        share.open()


@pytest.mark.parametrize("said", [66 * MIB, 100 * MIB, 64 * MIB + 4096])
def test_a_chunk_that_is_smaller_than_was_said_is_refused(gpu, pool, ends, said):
    buffer = pool.allocate("64MiB", shareable=True)
    with buffer.export() as share:
        lie = replace(share._layout, nbytes=said, runs=(Run(1, 0, said),))
        send_share(ends[0], lie, share._descriptors)
    with sharing.receive(ends[1]) as received, pytest.raises(memlake.MemlakeError):
        received.open()
    buffer.close()
    pool.trim()
    assert gpu.free_memory == gpu.total_memory


def test_a_device_that_this_process_does_not_have_is_named(ends, descriptors):
    for is_emulated, advice in ((True, "make the same devices"), (False, "CUDA_VISIBLE_DEVICES")):
        layout = layout_of(2 * MIB, 0, is_emulated, [b"nobody has this "], [(2 * MIB, 0)])
        send_share(ends[0], layout, descriptors(1))
        with sharing.receive(ends[1]) as share, pytest.raises(ConfigError, match=advice):
            share.open()


def test_only_a_unix_socket_carries_a_share(pool):
    buffer = pool.allocate("2MiB", shareable=True)
    with buffer.export() as share, socket.socket(socket.AF_INET) as other:
        for wrong in (other, "socket", 5, None):
            with pytest.raises(ConfigError, match="socket"):
                share.send(wrong)
            with pytest.raises(ConfigError, match="socket"):
                sharing.receive(wrong)


def test_a_socket_that_does_not_wait_answers_for_itself(ends):
    ends[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        sharing.receive(ends[1])
