"""The engine that uses a cluster. A process of its own, the gateway, is the client of the cluster.

The libraries of clusters start threads, write to stderr, and may end their process when the cluster is gone. In a
process of their own they can do so: the sweep sees that the gateway has ended and says it in one sentence.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memlake._native import __version__
from memlake.errors import ConfigError, SweepError
from memlake.sweeping.local_engine import given_up
from memlake.sweeping.task import Answer, Task, changed

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["ClusterEngine"]

_TITLES = {"dask": "Dask", "ray": "Ray"}
_MODULES = {"dask": "distributed", "ray": "ray"}
_PROGRAM = (
    "import pickle, sys; sys.path[:], kind, address = pickle.load(sys.stdin.buffer); "
    "from memlake.sweeping.gateway import serve; serve(kind, address)"
)
_LOG_PREFIX = re.compile(r"^\[[^]]*\] (?:\S+:\d+: )?")
_AHEAD = 2
"""So many tasks per worker are on the cluster at once: one is done, the next waits. Their files are in memory."""


class ClusterEngine:
    """Does tasks on a cluster that somebody has started.

    Args:
        kind: ``"dask"`` or ``"ray"``.
        address: where the cluster is; None: Ray's own way to find it.

    Raises:
        ConfigError: if the client of the cluster is not installed.
    """

    def __init__(self, kind: str, address: str | None) -> None:
        if find_spec(_MODULES[kind]) is None:
            raise ConfigError(
                f"the engine {kind} needs the package {_MODULES[kind]}, which is not installed; hint: "
                f"pip install 'memlake[{kind}]'"
            )
        self._kind = kind
        self._address = address
        self._num_workers = 1
        self._sends_content = False

    def __enter__(self) -> ClusterEngine:
        self._complaints = tempfile.TemporaryFile()
        # -I: neither the folder nor the environment may put other modules before those of this process.
        self._gateway = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        try:
            self._send((sys.path, self._kind, self._address))
            self._num_workers = self._receive()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._gateway.stdin, self._gateway.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._gateway.terminate()  # it disconnects from the cluster, which takes back what is not done
        self._gateway.wait()
        self._complaints.close()

    @property
    def num_workers(self) -> int:
        """How many tasks the cluster did at the same time when the sweep began."""
        return self._num_workers

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Answer], None, None]:
        """Does all tasks and yields each once, with its answer, in the order in which they are done."""
        waiting = deque(enumerate(tasks))
        running: dict[int, Task] = {}
        while waiting or running:
            while waiting and len(running) < _AHEAD * self._num_workers:
                number, task = waiting.popleft()
                if self._sends_content:
                    if (content := _content_of(task)) is None:
                        yield task, Answer(error=str(changed(task.path)))
                        continue
                    self._send((number, task.to_text(), content))
                else:
                    self._send((number, task.to_text(), None))
                running[number] = task
            if not running:
                break
            number, answer = self._receive()
            task = running.pop(number)
            if answer is None:
                yield task, Answer(error=given_up(task.path, "the workers that did it have ended"))
            elif (found := Answer.of_text(answer)).needs_content:
                # The workers share no disk with this machine, or not all of them do.
                self._sends_content = True
                waiting.appendleft((number, task))
            else:
                yield task, found

    def _send(self, message: Any) -> None:
        try:
            _write(self._gateway.stdin, message)
        except BrokenPipeError:
            self._receive()  # what the gateway said last
            raise self._gone() from None

    def _receive(self) -> Any:
        """Returns the next message of the gateway.

        Raises:
            SweepError: if the message is an error, or the gateway has ended.
        """
        assert self._gateway.stdout is not None
        try:
            kind, *content = pickle.load(self._gateway.stdout)
        except (EOFError, pickle.UnpicklingError, ConnectionError):
            raise self._gone() from None
        if kind == "answer":
            return tuple(content)
        if kind == "ready":
            return content[0]
        if kind == "unfit":
            raise self._unfit(*content)
        raise SweepError(*content)

    def _unfit(self, where: str, version: str | None) -> SweepError:
        hint = f"install memlake {__version__} in the environment of every worker"
        if version is None:
            has = "has no memlake"
        elif version == __version__:
            has = f"has another build of memlake {version}, or other costs of driver calls (MEMLAKE_COSTS)"
            hint = "install the same wheel in the environment of every worker, and give all of them the same costs"
        else:
            has = f"has memlake {version}, and this one is {__version__}"
        return SweepError(f"a worker of the {_TITLES[self._kind]} cluster {has} ({where})", hint)

    def _gone(self) -> SweepError:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        said = f" ({_LOG_PREFIX.sub('', lines[-1])[:120].strip()})" if lines else ""
        return SweepError(
            f"the {_TITLES[self._kind]} cluster {self._address or ''} is gone{said}".replace("  ", " "),
            "start it again and run the same sweep: with a results file it goes on from where it was",
        )


def _content_of(task: Task) -> bytes | None:
    try:
        return Path(task.path).read_bytes()
    except OSError:
        return None


def _write(pipe: BinaryIO | Any, message: Any) -> None:
    pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()
