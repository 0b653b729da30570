"""Publishing the pools of a process, and reading those of others."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

import memlake
from helpers.processes import assert_ends_well, run_python
from memlake.errors import ConfigError
from memlake.publishing import PublishFolder, Reader

MIB = 2**20

# A reader also looks into the folder of this user in /tmp, and two tests use it.
pytestmark = pytest.mark.alone("published-pools")


def read():
    with Reader() as reader:
        return reader.read()


def sockets_in(runtime):
    return sorted(path.name for path in (runtime / "memlake").iterdir())


def test_a_reader_sees_the_figures_of_every_pool_and_stream(program):
    (found,) = read()
    assert found.process == program.process.pid
    assert found.version == memlake.__version__
    assert found.program.startswith("python")
    lake, caching = found.pools
    assert (lake.policy, caching.policy) == ("lake", "caching")
    assert (lake.limit, caching.limit) == (512 * MIB, None)
    assert lake.live == 60 * MIB
    assert lake.live + lake.free + lake.pending == lake.held
    assert lake.free >= 100 * MIB
    assert {stream.stream: stream.live for stream in lake.streams} == {0: 40 * MIB, program.stream: 20 * MIB}
    assert (lake.moves, caching.moves) == (0, None)
    assert lake.driver_ms > 0
    assert (caching.live, caching.num_live) == (24 * MIB, 1)


def test_every_reading_is_of_now(program):
    with Reader() as reader:
        before = reader.read()[0].pools[0].live
        program.do("live.close()")
        assert reader.read()[0].pools[0].live == before - 40 * MIB
        program.do("other.close(); pool.close()")
        assert [pool.policy for pool in reader.read()[0].pools] == ["caching"]
        program.do("pool = memlake.Pool(gpu, 'expandable')")
        assert [pool.policy for pool in reader.read()[0].pools] == ["caching", "expandable"]


def test_a_pool_in_the_place_of_another_has_its_own_description(program):
    for policy in ("stitch", "direct", "expandable"):
        program.do("later = None")
        program.do(f"later = memlake.Pool(gpu, {policy!r})")
        assert [pool.policy for pool in read()[0].pools] == ["lake", "caching", policy]


def test_a_reader_sees_which_pool_serves_pytorch_now(program):
    program.do("import ctypes; library = ctypes.CDLL(memlake.native_library())")
    assert [pool.serves for pool in read()[0].pools] == ["", ""]
    program.do("assert library.memlake_torch_set_pool(0, ctypes.c_void_p(pool.native_handle)) == 0")
    assert [pool.serves for pool in read()[0].pools] == ["torch", ""]
    program.do("assert library.memlake_torch_set_pool(0, ctypes.c_void_p(second.native_handle)) == 0")
    assert [pool.serves for pool in read()[0].pools] == ["", "torch"]
    program.do("assert library.memlake_torch_set_pool(0, None) == 0")
    assert [pool.serves for pool in read()[0].pools] == ["", ""]


def test_refusals_and_the_limit_are_those_of_now(program):
    program.do("second.limit = '30MiB'")
    program.do("import contextlib")
    program.do("exec('with contextlib.suppress(memlake.OutOfMemory): second.allocate(2**30)')")
    pool = read()[0].pools[1]
    assert (pool.ooms, pool.limit) == (1, 30 * MIB)
    assert pool.retries >= 1


def test_publishing_ends_with_a_block(runtime):
    async def publish_for_a_while():
        async with memlake.publish() as publisher:
            assert len(sockets_in(runtime)) == 1
            return publisher

    with memlake.publish() as first:
        assert len(sockets_in(runtime)) == 1
    second = asyncio.run(publish_for_a_while())
    assert not first.is_open
    assert not second.is_open
    assert sockets_in(runtime) == []


def test_several_processes_and_several_readers(start):
    programs = [start(), start()]
    with Reader() as one, Reader() as other:
        for _ in range(3):
            numbers = [[found.process for found in reader.read()] for reader in (one, other)]
            assert numbers == [sorted(program.process.pid for program in programs)] * 2


def test_a_process_that_ends_removes_its_socket_and_says_nothing(program, runtime):
    assert len(sockets_in(runtime)) == 1
    with Reader() as reader:
        assert len(reader.read()) == 1
        assert program.end() == ""
        assert program.process.returncode == 0
        assert sockets_in(runtime) == []
        assert reader.read() == []


def test_the_socket_of_a_killed_process_is_removed_by_the_reader(program, runtime):
    program.process.kill()
    program.process.wait()
    assert len(sockets_in(runtime)) == 1
    assert read() == []
    assert sockets_in(runtime) == []


def test_a_stopped_process_is_named_and_does_not_hold_up_the_reader(start):
    stopped, running = start(), start()
    with Reader() as reader:
        assert len(reader.read()) == 2
        os.kill(stopped.process.pid, signal.SIGSTOP)
        os.waitpid(stopped.process.pid, os.WUNTRACED)  # its threads go on until the signal has arrived
        found = {one.process: one.pools for one in reader.read()}
        assert found[stopped.process.pid] is None
        assert len(found[running.process.pid]) == 2
        os.kill(stopped.process.pid, signal.SIGCONT)
        while any(one.pools is None for one in reader.read()):
            pass
        assert [len(one.pools) for one in reader.read()] == [2, 2]


def test_a_forked_child_publishes_nothing_and_leaves_the_parent_as_it_is(program, runtime):
    before = sockets_in(runtime)
    with Reader() as reader:
        reader.read()
        program.do("import os, signal; child = os.fork(); child or signal.pause()")
        assert [len(one.pools) for one in reader.read()] == [2]
        assert [len(one.pools) for one in read()] == [2]
        program.do("os.kill(child, signal.SIGKILL), os.waitpid(child, 0)")
        assert [len(one.pools) for one in reader.read()] == [2]
    assert sockets_in(runtime) == before


def test_a_forked_child_that_ends_removes_nothing_and_says_nothing(runtime):
    said = assert_ends_well("""
        import os, sys
        import memlake
        publisher = memlake.publish()
        child = os.fork()
        if not child:
            assert not publisher.is_open
            publisher.close()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        from memlake.publishing import Reader
        with Reader() as reader:
            print(publisher.is_open, [one.process == os.getpid() for one in reader.read()])
    """)
    assert said.split() == ["True", "[True]"]
    assert sockets_in(runtime) == []


def test_a_forked_child_can_publish_itself(runtime):
    said = assert_ends_well("""
        import os, sys
        import memlake
        from memlake.publishing import Reader
        memlake.publish()
        child = os.fork()
        if not child:
            memlake.publish()
            with Reader() as reader:
                numbers = [one.process for one in reader.read()]
            sys.exit(numbers != sorted([os.getpid(), os.getppid()]))
        print(os.waitpid(child, 0)[1])
    """)
    assert said.split() == ["0"]
    assert sockets_in(runtime) == []


def test_publishing_twice_is_one_socket_and_closing_ends_it(runtime):
    publisher = memlake.publish()
    try:
        assert memlake.publish() is publisher
        assert len(sockets_in(runtime)) == 1
        assert [one.process for one in read()] == [os.getpid()]
    finally:
        publisher.close()
    assert sockets_in(runtime) == []
    assert not publisher.is_open
    publisher.close()
    again = memlake.publish()
    assert again is not publisher
    again.close()


def test_a_pool_whose_device_is_closed_does_not_hide_the_others(runtime, memlake_emulator):
    gone, here = memlake_emulator.emulate(devices=2, memory="64MiB")
    with memlake.Pool(here) as pool:
        orphan = memlake.Pool(gone)
        gone.close()
        publisher = memlake.publish()
        try:
            (one,) = read()
        finally:
            publisher.close()
        assert pool._identity in [told.pool for told in one.pools]
        assert orphan._identity not in [told.pool for told in one.pools]


def test_without_the_switch_nothing_is_published(runtime, monkeypatch):
    for value in ("", "0"):
        monkeypatch.setenv("MEMLAKE_PUBLISH", value)
        assert_ends_well("import memlake; (gpu,) = memlake.emulate(); memlake.Pool(gpu)")
        assert not (runtime / "memlake").exists()


@pytest.mark.parametrize(
    ("value", "says"), [("yes", "memlake: MEMLAKE_PUBLISH must be 1 or 0, got 'yes'; hint: "), ("1", "chmod 700")]
)
def test_a_switch_that_cannot_be_followed_is_one_line_and_the_program_goes_on(runtime, value, says):
    (runtime / "memlake").mkdir()
    (runtime / "memlake").chmod(0o755)
    done = run_python("import memlake; (gpu,) = memlake.emulate(); memlake.Pool(gpu); print(1)", MEMLAKE_PUBLISH=value)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_the_folder_is_open_to_its_user_only(program, runtime):
    assert (runtime / "memlake").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_open_is_refused(runtime):
    (runtime / "memlake").mkdir()
    for mode in (0o750, 0o705, 0o701, 0o777):
        (runtime / "memlake").chmod(mode)
        with pytest.raises(ConfigError, match=rf"its mode is {mode:o}\); hint: chmod 700 "):
            memlake.publish()
        with pytest.raises(ConfigError, match="other users may open the folder"):
            read()


def test_a_folder_of_another_user_is_refused(runtime):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    (runtime / "memlake").mkdir(mode=0o700)
    os.chown(runtime / "memlake", 12345, -1)
    with pytest.raises(ConfigError, match="belongs to user 12345 and not to user 0; hint: "):
        memlake.publish()
    with pytest.raises(ConfigError, match="belongs to user 12345"):
        read()


def test_a_link_or_a_file_in_the_place_of_the_folder_is_refused(runtime, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (runtime / "memlake").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is no folder; hint: "):
        memlake.publish()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (runtime / "memlake").unlink()
    (runtime / "memlake").write_text("")
    with pytest.raises(ConfigError, match="is no folder; hint: "):
        memlake.publish()


def test_a_process_of_another_user_gets_no_answer_even_if_the_folder_is_open_to_it(program, runtime):
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    (path,) = (runtime / "memlake").iterdir()
    path.chmod(0o777)
    path.parent.chmod(0o777)
    child = os.fork()
    if not child:
        code = 1
        try:
            os.chdir(path.parent)  # from here on, the folders above do not matter
            os.setuid(12345)
            one = socket.socket(socket.AF_UNIX)
            one.connect(path.name)
            code = 2
            one.send(b"?")
            code = 0 if one.recv(1) == b"" else 3
        except (BrokenPipeError, ConnectionResetError):
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    path.parent.chmod(0o700)
    assert len(read()) == 1


def test_a_socket_that_speaks_otherwise_is_ignored(program, runtime):
    class Liar:
        def __init__(self, answer):
            self.socket = socket.socket(socket.AF_UNIX)
            name = f"{answer.hex()}.sock"
            with PublishFolder(str(runtime / "memlake")) as folder:
                self.socket.bind(folder.address_of(name))
            self.socket.listen()
            self.answer = answer

        def serve(self):
            other, _ = self.socket.accept()
            other.sendall(self.answer)
            return other

    answers = [b"\xff" * 8, b"\0\0\0\x02[]", b"\0\0\0\x04nope", b'\0\0\0\x0c{"pools": 1}', b"\0\0"]
    liars = [Liar(answer) for answer in answers]
    with Reader() as reader:
        reader._connect()
        others = [liar.serve() for liar in liars]
        others[-1].close()
        assert [one.process for one in reader.read()] == [program.process.pid]
    for one in [*others, *(liar.socket for liar in liars)]:
        one.close()


def test_a_hidden_socket_is_not_asked(runtime):
    """A publisher gives its socket a visible name when it listens. Until then it must not be taken for a dead one."""
    publisher = memlake.publish()
    (path,) = (runtime / "memlake").iterdir()
    publisher.close()
    unbound = socket.socket(socket.AF_UNIX)
    with PublishFolder(str(runtime / "memlake")) as folder:
        unbound.bind(folder.address_of(f".{path.name}"))
    assert read() == []
    assert sockets_in(runtime) == [f".{path.name}"]
    unbound.close()


def test_a_folder_in_tmp_that_somebody_else_has_made_is_left_alone(program):
    path = Path(f"/tmp/memlake-{os.geteuid()}")
    if os.path.lexists(path):
        pytest.skip("this user publishes in /tmp at the moment")
    path.mkdir()
    path.chmod(0o755)
    try:
        assert [one.process for one in read()] == [program.process.pid]
    finally:
        path.rmdir()


def test_processes_without_a_session_are_found_too(runtime, start, monkeypatch):
    if os.path.lexists(f"/tmp/memlake-{os.geteuid()}"):
        pytest.skip("this user publishes in /tmp at the moment")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    outside = start()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    inside = start()
    try:
        assert {one.process for one in read()} == {outside.process.pid, inside.process.pid}
        outside.end()
    finally:
        Path(f"/tmp/memlake-{os.geteuid()}").rmdir()
