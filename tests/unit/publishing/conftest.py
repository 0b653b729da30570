"""Fixtures of the tests of publishing."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import sys
    import memlake

    (gpu,) = memlake.emulate(memory="1GiB", backing="none")
    pool = memlake.Pool(gpu, limit="512MiB")
    stream = gpu.create_stream()
    live = pool.allocate("40MiB")
    other = pool.allocate("20MiB", stream=stream)
    pool.allocate("100MiB").close()
    second = memlake.Pool(gpu, "caching")
    kept = second.allocate("24MiB")
    print(stream.handle, flush=True)
    for line in sys.stdin:
        exec(line)
        print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    """The folder of the user's sessions, for this test only."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


class Program:
    """A process with two pools, which does what it is told."""

    def __init__(self, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **({"env": environment} if environment else {}),
        )
        self.stream = int(self.process.stdout.readline())

    def do(self, line):
        print(line, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        """Lets it end by itself; what it said on stderr."""
        return self.process.communicate()[1]


@pytest.fixture
def start(monkeypatch):
    """Starts programs that publish from the start."""
    started = []
    monkeypatch.setenv("MEMLAKE_PUBLISH", "1")

    def make():
        started.append(Program())
        return started[-1]

    yield make
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def program(start):
    return start()
