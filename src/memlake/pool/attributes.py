"""A pool's attributes under the names that CUDA gives them (``CU_MEMPOOL_ATTR_...``, as cuda.core writes them)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.units import LARGEST_SIZE, Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from memlake.policies import Options

__all__ = ["NEVER_RELEASE", "PoolAttributes", "parse_threshold"]

NEVER_RELEASE = 2**64 - 1
"""The release threshold that keeps everything: CUDA's ``UINT64_MAX``, and what ``"max"`` means."""


def parse_threshold(threshold: Size, total: int) -> int:
    """A release threshold in bytes.

    Args:
        threshold: bytes, a size, a share such as ``"50%"``, or ``"max"``.
        total: what a share is of.
    """
    if threshold == "max":
        return NEVER_RELEASE
    # CUDA programs write UINT64_MAX; every number beyond all memory means the same.
    if isinstance(threshold, int) and not isinstance(threshold, bool) and LARGEST_SIZE < threshold <= NEVER_RELEASE:
        return NEVER_RELEASE
    return parse_bytes(threshold, of=total, what="release_threshold")


class PoolAttributes:
    """What `memlake.Pool` has under CUDA's names.

    As with CUDA, the threshold and the three rules of reuse can be set; the two high-water marks can only be reset, by
    setting them to 0; the two current values can only be read. What CUDA calls reserved is *held* everywhere else.
    """

    __slots__ = ()

    # What Pool has. Here, because a class that is built on the core brings its own layout, and this one has none.
    _total: int
    _release_threshold: int
    _policy: Options
    _stats: Any
    _set_release_threshold: Any
    _reset_held_peak: Any
    _reset_active_peak: Any
    _reuse_rules: Any
    _set_reuse_rules: Any

    @property
    def release_threshold(self) -> int:
        """How many bytes stay held at a synchronisation; `NEVER_RELEASE` (2**64 - 1): all. Settable, also ``"max"``.

        When the program waits, with `Stream.sync`, `Event.sync` or `Device.synchronize`, free memory above the
        threshold goes back to the driver. It is neither a cap (see `max_size`) nor taken in advance (see `reserve`).
        Our default keeps memory; CUDA's is 0. Waits that go around memlake are not seen.
        """
        return self._release_threshold

    @release_threshold.setter
    def release_threshold(self, threshold: Size) -> None:
        self._set_release_threshold(parse_threshold(threshold, self._total))

    @property
    def reserved_mem_current(self) -> int:
        """Physical memory that it holds: `PoolStats.held`. Read-only."""
        return int(self._stats()["held"])

    @reserved_mem_current.setter
    def reserved_mem_current(self, value: object) -> None:
        raise ConfigError(
            f"reserved_mem_current says what is held and cannot be set, got {value!r}; to take memory in advance call "
            "pool.reserve(nbytes) or make the pool with initial_size=nbytes, to cap it make the pool with "
            "max_size=nbytes"
        )

    @property
    def reserved_mem_high(self) -> int:
        """The most that was held since it was last set to 0, which lets it begin again at what is held now."""
        return int(self._stats()["held_peak"])

    @reserved_mem_high.setter
    def reserved_mem_high(self, value: int) -> None:
        _require_reset("reserved_mem_high", "held", value)
        self._reset_held_peak()

    @property
    def used_mem_current(self) -> int:
        """Memory in use: blocks that are live, or freed while a stream may still use them; with the policy ``"driver"``
        what the driver says. Read-only."""
        stats = self._stats()
        return int(stats["policy_counters"].get("driver_used", stats["active"]))

    @used_mem_current.setter
    def used_mem_current(self, value: object) -> None:
        raise ConfigError(
            f"used_mem_current says what is in use and cannot be set, got {value!r}; allocate and close change it"
        )

    @property
    def used_mem_high(self) -> int:
        """The most that was in use since it was last set to 0, which lets it begin again at what is in use now."""
        stats = self._stats()
        return int(stats["policy_counters"].get("driver_used_peak", stats["active_peak"]))

    @used_mem_high.setter
    def used_mem_high(self, value: int) -> None:
        _require_reset("used_mem_high", "in use", value)
        self._reset_active_peak()

    @property
    def reuse_follow_event_dependencies(self) -> bool:
        """Whether memory that stream A freed serves stream B at once if the program let B wait for A. Settable.

        A lake looks for it for requests above 1 MiB, and for all when there is no other memory. The order that counts
        is the one made with `Stream.record`, `Stream.wait` and `Event`, after the free.
        """
        return self._rules()[0]

    @reuse_follow_event_dependencies.setter
    def reuse_follow_event_dependencies(self, value: bool) -> None:
        self._set_rule(0, "reuse_follow_event_dependencies", value)

    @property
    def reuse_allow_opportunistic(self) -> bool:
        """Whether memory that stream A freed serves stream B if A happens to have passed the free. Settable."""
        return self._rules()[1]

    @reuse_allow_opportunistic.setter
    def reuse_allow_opportunistic(self, value: bool) -> None:
        self._set_rule(1, "reuse_allow_opportunistic", value)

    @property
    def reuse_allow_internal_dependencies(self) -> bool:
        """Whether the pool may let stream B wait for A on the device, when there is no other memory. Settable.

        Without it the host waits in such a case (`PoolStats.host_waits`); with it only before a request would be
        refused, or if less than 1 % of what the pool may hold would be left.
        """
        return self._rules()[2]

    @reuse_allow_internal_dependencies.setter
    def reuse_allow_internal_dependencies(self, value: bool) -> None:
        self._set_rule(2, "reuse_allow_internal_dependencies", value)

    def _rules(self) -> tuple[bool, bool, bool]:
        rules: tuple[bool, bool, bool] | None = self._reuse_rules()
        return (False, False, False) if rules is None else rules

    def _set_rule(self, number: int, name: str, value: bool) -> None:
        if not isinstance(value, bool | int) or value not in (0, 1):
            raise ConfigError(f"{name} is a switch, True or False; got {value!r}")
        rules = self._reuse_rules()
        if rules is None:
            if not value:
                return
            raise ConfigError(
                f"{name} cannot be switched on: the policy {self._policy.name!r} keeps freed memory for the stream "
                'that freed it, as the allocator that it re-creates does; use the policy "lake" or "driver"'
            )
        changed = [*rules]
        changed[number] = bool(value)
        self._set_reuse_rules(*changed)


def _require_reset(name: str, what: str, value: object) -> None:
    if isinstance(value, bool) or value != 0:
        asked = format_bytes(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)
        raise ConfigError(
            f"{name} is the most that was {what}, not a limit: it can only be set to 0, which lets it begin again; got "
            f"{asked}. To cap a pool make it with max_size=, or set pool.limit"
        )
