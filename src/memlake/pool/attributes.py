"""Pool attributes: the attributes of CUDA's memory pools (``CU_MEMPOOL_ATTR_...``), named as in cuda.core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.policies.registry import policies_with
from memlake.units import LARGEST_SIZE, Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from memlake.policies import Options

__all__ = ["NEVER_RELEASE", "PoolAttributes", "parse_threshold"]

NEVER_RELEASE = 2**64 - 1
"""The release threshold that keeps all memory: CUDA's ``UINT64_MAX``, also written ``"max"``."""


def parse_threshold(threshold: Size, total: int) -> int:
    """Returns a release threshold in bytes.

    Args:
        threshold: bytes, a size, a share such as ``"50%"``, or ``"max"``.
        total: the memory that a share refers to.
    """
    if threshold == "max":
        return NEVER_RELEASE
    # CUDA programs write UINT64_MAX; every number larger than any memory means the same.
    if isinstance(threshold, int) and not isinstance(threshold, bool) and LARGEST_SIZE < threshold <= NEVER_RELEASE:
        return NEVER_RELEASE
    return parse_bytes(threshold, of=total, what="release_threshold")


class PoolAttributes:
    """The attributes of `memlake.Pool` that have CUDA's names.

    As in CUDA, the threshold and the three reuse rules can be set, the two high-water marks can only be reset to the
    current value by setting them to 0, and the two current values are read-only. CUDA's "reserved" is memlake's "held".
    """

    __slots__ = ()

    # Members of Pool, declared for type checkers: a mixin of a native class has no slots of its own.
    _total: int
    _policy: Options
    _threshold: Any
    _stats: Any
    _set_release_threshold: Any
    _reset_held_peak: Any
    _reset_active_peak: Any
    _reuse_rules: Any
    _set_reuse_rules: Any

    @property
    def release_threshold(self) -> int:
        """How many bytes the pool keeps when the program waits; `NEVER_RELEASE` (2**64 - 1): all. Settable.

        When the program waits with `Stream.sync`, `Event.sync` or `Device.synchronize`, the pool releases free memory
        above the threshold. The threshold is no limit (see `max_size`) and takes no memory (see `reserve`). The
        default, ``"max"``, keeps all memory; CUDA's default is 0. memlake does not notice waits of other libraries.
        """
        return int(self._threshold)

    @release_threshold.setter
    def release_threshold(self, threshold: Size) -> None:
        self._set_release_threshold(parse_threshold(threshold, self._total))

    @property
    def reserved_mem_current(self) -> int:
        """The physical memory that the pool holds: `PoolStats.held`. Read-only."""
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
        """The peak of the held memory. Setting it to 0 resets it to the memory that is held now."""
        return int(self._stats()["held_peak"])

    @reserved_mem_high.setter
    def reserved_mem_high(self, value: int) -> None:
        _require_reset("reserved_mem_high", "held", value)
        self._reset_held_peak()

    @property
    def used_mem_current(self) -> int:
        """The memory in use: live and pending blocks. With the policy ``"driver"`` the driver's figure. Read-only."""
        stats = self._stats()
        return int(stats["policy_counters"].get("driver_used", stats["active"]))

    @used_mem_current.setter
    def used_mem_current(self, value: object) -> None:
        raise ConfigError(
            f"used_mem_current says what is in use and cannot be set, got {value!r}; allocate and close change it"
        )

    @property
    def used_mem_high(self) -> int:
        """The peak of the memory in use. Setting it to 0 resets it to the memory that is in use now."""
        stats = self._stats()
        return int(stats["policy_counters"].get("driver_used_peak", stats["active_peak"]))

    @used_mem_high.setter
    def used_mem_high(self, value: int) -> None:
        _require_reset("used_mem_high", "in use", value)
        self._reset_active_peak()

    @property
    def reuse_follow_event_dependencies(self) -> bool:
        """Whether stream B may reuse memory that stream A freed, if the program made B wait for A. Settable.

        The policy ``"lake"`` uses this rule for requests above 1 MiB, and for all requests when there is no other
        memory. Only waits made after the free with `Stream.record`, `Stream.wait` and `Event` count.
        """
        return self._rules()[0]

    @reuse_follow_event_dependencies.setter
    def reuse_follow_event_dependencies(self, value: bool) -> None:
        self._set_rule(0, "reuse_follow_event_dependencies", value)

    @property
    def reuse_allow_opportunistic(self) -> bool:
        """Whether stream B may reuse memory that stream A freed, if A has already passed the free. Settable."""
        return self._rules()[1]

    @reuse_allow_opportunistic.setter
    def reuse_allow_opportunistic(self, value: bool) -> None:
        self._set_rule(1, "reuse_allow_opportunistic", value)

    @property
    def reuse_allow_internal_dependencies(self) -> bool:
        """Whether the pool may make stream B wait for A on the device, when there is no other memory. Settable.

        Without this rule the host waits instead (`PoolStats.host_waits`). With it, the host waits only before a request
        would be refused, or if less than 1 % of the pool's limit would be left.
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
                "that freed it, as the allocator that it re-creates does; use the policy "
                f"{policies_with('reuse_rules')}"
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
