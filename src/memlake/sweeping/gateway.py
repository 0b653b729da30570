"""The gateway to a cluster: a process that is the cluster's client, for one sweep.

Tasks come from its stdin and answers go to its stdout, as pickles. It ends when its stdin ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from memlake.sweeping.basis import basis_of_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.errors import SweepError

__all__ = ["Client", "serve"]

_LOOK_AFTER = 2.0
"""After so many seconds without an answer the gateway asks whether the cluster has workers, and again."""
_PATIENCE = 60.0
"""A cluster may be without workers for so many seconds: new ones may be on their way."""


class Client(Protocol):
    """A connection to a cluster."""

    def connect(self) -> int:
        """Connects and returns how many tasks the cluster can do at the same time.

        Raises:
            SweepError: if there is no such cluster, or if it has no workers.
        """

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Callable[[Any], None]) -> Any:
        """Gives a task to the cluster. `done` is called with the handle of the task, in any thread.

        Returns:
            The handle. It must be kept until the task is done.
        """

    def result_of(self, handle: Any) -> Any:
        """Returns what the function of a finished task returned; None if it has ended its workers several times.

        Raises:
            Exception: what the function or the cluster raised.
        """

    def num_workers(self) -> int:
        """Returns how many tasks the cluster can do at the same time now. Raises anything if the cluster is gone."""

    def gone(self, error: BaseException | None) -> SweepError:
        """Returns the error for a cluster that is gone; None: it has no workers."""


def do_task(basis: str, text: str, content: bytes | None) -> tuple[str, str, str | None]:
    """What a worker does. It is sent as a value, because a worker may have no memlake, or another one.

    Args:
        basis: what `memlake.sweeping.basis` says in the program that sweeps.
        text: the task.
        content: the content of the file, or None.
    """
    import os
    import socket

    where = f"host {socket.gethostname()}, process {os.getpid()}"
    try:
        from memlake._native import __version__ as found
    except ImportError:
        return "unfit", where, None
    try:
        from memlake.sweeping.basis import basis_of_results
    except ImportError:  # an older version
        return "unfit", where, found
    if basis_of_results() != basis:
        return "unfit", where, found
    from memlake.sweeping.task import answer_text

    return "answer", where, answer_text(text, content)


# Functions of this module are sent by value, together with all that they need.
do_task.__module__ = "__main__"


def serve(kind: str, address: str | None) -> NoReturn:
    """Connects to a cluster and does the tasks that come from stdin there. This is the main function of a gateway.

    Args:
        kind: ``"dask"`` or ``"ray"``.
        address: where the cluster is.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers

    def say(*message: Any) -> None:
        pickle.dump(message, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    from memlake.errors import SweepError

    try:
        client = _client_of(kind, address)
        say("ready", client.connect())
        _do_all(client, say)
    except SweepError as error:
        say("failed", error.reason, error.hint)
    except BrokenPipeError:
        pass
    # Libraries of clusters may wait for a cluster that is gone. It is the cluster's part to forget this client.
    os._exit(0)


def _client_of(kind: str, address: str | None) -> Client:
    if kind == "dask":
        from memlake.sweeping.dask_client import DaskClient

        return DaskClient(address or "")
    from memlake.sweeping.ray_client import RayClient

    return RayClient(address)


def _do_all(client: Client, say: Callable[..., None]) -> None:
    events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(events,), daemon=True).start()
    basis = basis_of_results()
    numbers: dict[int, tuple[int, Any]] = {}  # by the identity of the handle, which is kept here
    seen_workers = time.monotonic()
    while True:
        try:
            kind, content = events.get(timeout=_LOOK_AFTER)
        except queue.Empty:
            if _has_workers(client):
                seen_workers = time.monotonic()
            elif time.monotonic() - seen_workers > _PATIENCE:
                raise client.gone(None) from None
            continue
        seen_workers = time.monotonic()
        if kind == "end":
            return
        if kind == "task":
            number, text, task_content = content

            def done(handle: Any) -> None:
                events.put(("done", handle))

            handle = client.submit(do_task, (basis, text, task_content), done)
            numbers[id(handle)] = (number, handle)
        else:
            number, handle = numbers.pop(id(content))
            try:
                result = client.result_of(handle)
            except Exception as error:
                raise client.gone(error) from error
            if result is None:
                say("answer", number, None)
            elif result[0] == "unfit":
                say(*result)
                return
            else:
                say("answer", number, result[2])


def _has_workers(client: Client) -> bool:
    try:
        return client.num_workers() > 0
    except Exception as error:
        raise client.gone(error) from error


def _read(events: queue.SimpleQueue[tuple[str, Any]]) -> None:
    """Reads tasks in a thread of its own, so that the sweep never waits for the gateway to take one."""
    try:
        while True:
            events.put(("task", pickle.load(sys.stdin.buffer)))
    except (EOFError, OSError, pickle.UnpicklingError):
        events.put(("end", None))
