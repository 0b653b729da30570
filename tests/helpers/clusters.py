"""Real clusters of Dask and Ray on this machine, each of processes of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# A worker starts with these lines: its environment has no memlake, or another one.
WITHOUT_MEMLAKE = "import sys; sys.modules['memlake'] = None"
WITH_ANOTHER_MEMLAKE = (
    "import sys, types; sys.modules['memlake'] = types.ModuleType('memlake'); "
    "sys.modules['memlake._native'] = types.ModuleType('_native'); "
    "sys.modules['memlake._native'].__version__ = '0.0.1'"
)
WITH_ANOTHER_BUILD = "import memlake.sweeping.basis as basis; basis._code_digest = lambda: 'of other files'"


class DaskCluster:
    """A scheduler and its workers. The folder is the working directory of the workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self._start("scheduler", *arguments)
        self.workers: list[subprocess.Popen[bytes]] = []
        wait_for_port(self.port, self.scheduler)

    def add_worker(self, first: str = "") -> subprocess.Popen[bytes]:
        """Starts a worker with one thread."""
        arguments = [self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        worker = self._start("worker", *arguments, first=first)
        self.workers.append(worker)
        return worker

    def end(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()

    def _start(self, what: str, *arguments: str, first: str = "") -> subprocess.Popen[bytes]:
        program = f"{first}\nimport sys\nfrom distributed.cli.dask_{what} import main\nsys.exit(main())"
        with (self.folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", program, *arguments], cwd=self.folder, stdout=log, stderr=log
            )


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """A Dask cluster without workers, until the end of the block."""
    cluster = DaskCluster(folder)
    try:
        yield cluster
    finally:
        cluster.end()


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster with one node."""

    address: str
    folder: str

    def workers(self) -> list[int]:
        """The worker processes, those with a task first: children of the program whose arguments name the folder."""
        found: dict[bytes, list[int]] = {b"ray::do_task": [], b"ray::IDLE": []}
        for name in [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]:
            title = command_of(int(name)).partition(b"\0")[0]
            if title in found and self.folder.encode() in command_of(_parent_of(int(name))):
                found[title].append(int(name))
        return found[b"ray::do_task"] + found[b"ray::IDLE"]


@contextmanager
def ray_cluster(num_cpus: int) -> Iterator[RayCluster]:
    """A Ray cluster, until the end of the block."""
    port = free_port()
    # Ray's sockets are there, and the name of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="memlake-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"]
        command += [f"--port={port}", f"--num-cpus={num_cpus}", "--include-dashboard=false", "--disable-usage-stats"]
        command += [f"--temp-dir={folder}", "--object-store-memory=100000000"]
        head = subprocess.Popen(
            command,
            cwd=folder,
            # Whether the user has a token for other clusters must not matter here.
            env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            assert head.stdout is not None
            said = ""
            while "Ray runtime started" not in said:
                line = head.stdout.readline()
                assert line, f"Ray has not started: {said}"
                said += line
            # Ray's clients take 127.0.0.1 for the address of the machine in its network, so that one is used.
            node = re.search(r"Local node IP: (?:\x1b\[\d+m)*([\d.]+)", said)
            assert node, said
            yield RayCluster(f"{node[1]}:{port}", folder)
        finally:
            head.terminate()
            head.communicate()
            with suppress(ProcessLookupError):
                os.killpg(head.pid, signal.SIGKILL)


def command_of(number: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes()
    return b""


def _parent_of(number: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until a process listens at a port."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert process.poll() is None, "the scheduler has ended"
            time.sleep(0.05)
