"""The client of a Ray cluster."""

from __future__ import annotations

import logging
import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlake.errors import SweepError
from memlake.sweeping.addresses import first_line, knock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RayClient"]

_TO_CONNECT = 15
"""How many seconds a cluster has to accept a connection, and to have a CPU for tasks."""
_RETRIES = 2
"""How often Ray does a task again after its worker has ended. Two failures may be those of machines, three are not."""


class RayClient:
    """A connection to a Ray cluster; see `memlake.sweeping.gateway.Client`.

    Args:
        address: for instance ``"host:6379"`` or ``"ray://host:10001"``. None: the cluster that runs on this machine.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address or os.environ.get("RAY_ADDRESS") or "auto"
        self._ray: Any = None
        self._task: Any = None

    def connect(self) -> int:
        """Connects and returns how many tasks the cluster can do at the same time."""
        # Ray must not look for its own updates, nor report its use, in a process that the user does not see.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray ends its process if it has lost the cluster for so many seconds; by default for 60.
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "20")
        self._ray = import_module("ray")
        try:
            knock(self._address, _TO_CONNECT)
            self._ray.init(address=self._address, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:
            raise self._unreachable(error) from error
        begin = time.monotonic()
        while not (number := self.num_workers()):
            if time.monotonic() - begin > _TO_CONNECT:
                raise self.gone(None)
            time.sleep(0.1)  # a cluster that was just started
        return number

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Callable[[Any], None]) -> Any:
        """Gives a task to the cluster."""
        if self._task is None:
            self._task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
        reference = self._task.remote(*arguments)
        reference.future().add_done_callback(lambda _: done(reference))
        return reference

    def result_of(self, handle: Any) -> Any:
        """Returns what the function of a finished task returned; None if it has ended its workers several times."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(handle)
        except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError, exceptions.NodeDiedError):
            return None

    def num_workers(self) -> int:
        """Returns how many tasks the cluster can do at the same time now."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def gone(self, error: BaseException | None) -> SweepError:
        """Returns the error for a cluster that is gone; None: it has no workers."""
        if error is None:
            return SweepError(
                f"the Ray cluster at {self._address} has no CPUs for tasks",
                "add a node, for instance with `ray start --address HOST:6379`, and run the sweep again",
            )
        return SweepError(
            f"the Ray cluster at {self._address} has failed ({first_line(error)})",
            "start it again and run the same sweep: with a results file it goes on from where it was",
        )

    def _unreachable(self, error: BaseException) -> SweepError:
        if _wants_token(error):
            return SweepError(
                f"the Ray cluster at {self._address} asks for a token, and this process has none",
                "set RAY_AUTH_MODE=token, and see Ray's documentation for where the token must be",
            )
        where = "runs on this machine" if self._address == "auto" else f"answers at {self._address}"
        return SweepError(
            f"no Ray cluster {where} ({first_line(error)})",
            "check the address; `ray start --head` starts a cluster and prints its address",
        )


def _wants_token(error: BaseException | None) -> bool:
    """Whether the reason of an error is that the cluster wants a token. Ray has the reason in the text of a cause."""
    while error is not None:
        if "AuthenticationError" in f"{type(error).__name__} {error}":
            return True
        error = error.__cause__ or error.__context__
    return False
