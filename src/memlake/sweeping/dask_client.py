"""The client of a Dask cluster."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memlake.errors import SweepError
from memlake.sweeping.addresses import first_line, knock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DaskClient"]

_TO_CONNECT = 15
"""How many seconds a scheduler has to answer, and a cluster to get its first worker."""


class DaskClient:
    """A connection to the scheduler of a Dask cluster; see `memlake.sweeping.gateway.Client`.

    Args:
        address: for instance ``"tcp://host:8786"``, or the path of a scheduler file, which ends with ``.json``.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None

    def connect(self) -> int:
        """Connects and returns how many tasks the cluster can do at the same time."""
        distributed = import_module("distributed")
        # What goes wrong is said in one sentence; a large task is a file that travels by its content.
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        is_file = self._address.endswith(".json")
        place = {"scheduler_file": self._address} if is_file else {"address": self._address}
        try:
            if not is_file:
                knock(self._address, _TO_CONNECT)
            self._client = distributed.Client(**place, timeout=_TO_CONNECT, set_as_default=False)
        except Exception as error:
            raise SweepError(
                f"no Dask scheduler answers at {self._address} ({first_line(error)})",
                "check the address; `dask scheduler` starts a scheduler and prints its address",
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=_TO_CONNECT)
            return self.num_workers()
        except Exception as error:
            raise self.gone(None) from error

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Callable[[Any], None]) -> Any:
        """Gives a task to the cluster."""
        # Not pure: a task that is sent again with its content is another one.
        future = self._client.submit(function, *arguments, pure=False)
        future.add_done_callback(done)
        return future

    def result_of(self, handle: Any) -> Any:
        """Returns what the function of a finished task returned; None if it has ended its workers several times."""
        try:
            return handle.result()
        except import_module("distributed").KilledWorker:
            return None
        finally:
            handle.release()

    def num_workers(self) -> int:
        """Returns how many tasks the cluster can do at the same time now."""
        return sum(self._client.nthreads().values())

    def gone(self, error: BaseException | None) -> SweepError:
        """Returns the error for a cluster that is gone; None: it has no workers."""
        if error is None:
            return SweepError(
                f"the Dask cluster at {self._address} has no workers",
                f"start some, for instance with `dask worker {self._address}`, and run the sweep again",
            )
        return SweepError(
            f"the Dask cluster at {self._address} has failed ({first_line(error)})",
            "start it again and run the same sweep: with a results file it goes on from where it was",
        )
