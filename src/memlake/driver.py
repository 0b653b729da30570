"""Driver calls, of a real or an emulated driver: count them, model their cost, and make one of them fail."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from memlake.device.device import open_core
from memlake.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memlake import _native
    from memlake.device.device import Device

__all__ = ["CallCounts", "counting", "failing"]

_OUT_OF_MEMORY = 2


class CallCounts:
    """The driver calls that memlake made during a ``with`` block, by CUDA's names. `counting` makes it.

    Inside the block the counts grow. After the block they no longer change.
    """

    def __init__(self, driver: _native.Driver) -> None:
        self._driver = driver
        self._calls_before = driver.call_counts()
        self._modelled_before = driver.modelled_us()
        self._final: tuple[dict[str, int], float] | None = None

    @property
    def calls(self) -> Mapping[str, int]:
        """The number of calls of each function. Functions that were not called are left out."""
        return MappingProxyType(self._now()[0])

    @property
    def total(self) -> int:
        """The number of all calls."""
        return sum(self._now()[0].values())

    @property
    def modelled_us(self) -> float:
        """The time of these calls on an A100 in microseconds, by the cost table in core/driver/cost_model.hpp."""
        return self._now()[1]

    def __getitem__(self, call: str) -> int:
        return self._now()[0].get(call, 0)

    def __repr__(self) -> str:
        return f"CallCounts({dict(self.calls)}, modelled_us={self.modelled_us:g})"

    def _now(self) -> tuple[dict[str, int], float]:
        if self._final is not None:
            return self._final
        calls = {
            call: count - self._calls_before.get(call, 0)
            for call, count in self._driver.call_counts().items()
            if count > self._calls_before.get(call, 0)
        }
        return calls, self._driver.modelled_us() - self._modelled_before

    def _finish(self) -> None:
        self._final = self._now()


@contextmanager
def counting(device: Device) -> Iterator[CallCounts]:
    """Counts the driver calls of a ``with`` block::

        with memlake.driver.counting(gpu) as counts:
            segment = vmm.stitch(chunks)
        print(counts["cuMemMap"], counts.modelled_us)

    Args:
        device: a device of the driver to count for. Calls for other devices of that driver count as well.
    """
    counts = CallCounts(open_core(device).driver)
    try:
        yield counts
    finally:
        counts._finish()


@contextmanager
def failing(device: Device, *, call: str | None = None, nth: int = 1, code: int = _OUT_OF_MEMORY) -> Iterator[None]:
    """Makes one driver call of a ``with`` block fail without calling the driver::

        with memlake.driver.failing(gpu, call="cuMemMap", nth=3, code=2), pytest.raises(memlake.DriverError):
            vmm.stitch(chunks)

    The end of the block removes all failures that were set for the driver.

    Args:
        device: a device of the driver. Calls for other devices of that driver count as well.
        call: CUDA's name of the function. None: any function.
        nth: which call fails; 1 is the next one.
        code: the result of the failing call; 2 is out of memory.
    """
    for name, value, least in (("nth", nth, 1), ("code", code, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
    driver = open_core(device).driver
    try:
        driver.fail(call or "", nth, code)
    except ValueError as error:
        raise ConfigError(f"call: {error}") from None
    try:
        yield
    finally:
        driver.clear_faults()
