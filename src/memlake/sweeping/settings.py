"""The settings of a sweep: each policy on each device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlake.analysis.chosen_policies import chosen_policies
from memlake.errors import ConfigError
from memlake.policies import resolve_policy
from memlake.replaying.capacity import capacity_of, limit_of
from memlake.trace import Trace
from memlake.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from memlake.policies import Options
    from memlake.units import Size

__all__ = ["MOST_SETTINGS", "Setting", "chosen_settings"]

MOST_SETTINGS = 4096
"""The most settings of one sweep."""


@dataclass(frozen=True)
class Setting:
    """One policy on one device.

    Attributes:
        options: the policy with its options.
        capacity: the memory of the device in bytes.
        limit: the most that the policy may hold; None: no limit, except that of the policy's own options.
    """

    options: Options
    capacity: int
    limit: int | None = None

    @property
    def title(self) -> str:
        """The setting as a part of a sentence: ``"lake on 80 GiB"``."""
        return f"{self.options.label} on {format_bytes(self.capacity)}"

    def to_json(self) -> dict[str, Any]:
        """Returns the setting as a dict of texts and numbers; `of_json` makes it a setting again."""
        return {"configuration": self.options.configuration, "capacity": self.capacity, "limit": self.limit}

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> Setting:
        """Makes a setting of what `to_json` returned."""
        return cls(resolve_policy(given["configuration"]), given["capacity"], given["limit"])


def chosen_settings(
    policies: Iterable[str | Options] | str | Options | None,
    capacities: Iterable[Size] | Size,
    limit: Size | None,
    reserve: Size | None,
) -> tuple[Setting, ...]:
    """Returns every policy on every device, each once, the smallest device first.

    Args:
        policies: names, PyTorch's configuration strings, or options. None: every policy that is not approximate.
        capacities: sizes, or names of GPUs.
        limit: the most that each policy may hold, also as a share of the device.
        reserve: what to subtract from the memory of a named GPU for the CUDA context.

    Raises:
        ConfigError: if an argument cannot be used.
    """
    given = list(capacities) if isinstance(capacities, Iterable) and not isinstance(capacities, str) else [capacities]
    if not given or any(size is None for size in given):
        raise ConfigError(
            "a sweep has no devices; hint: name their sizes with capacities (on the command line --capacities), for "
            'instance "40GiB" and "80GiB", or GPUs such as "a100-80gb"'
        )
    nothing = Trace((), (), ())
    sizes = sorted({capacity_of(nothing, size, reserve).nbytes for size in given})
    limits = {size: None if limit is None else _limit_on(size, limit) for size in sizes}
    settings = tuple(Setting(options, size, limits[size]) for size in sizes for options in chosen_policies(policies))
    if len(settings) > MOST_SETTINGS:
        raise ConfigError(
            f"these are {len(settings)} settings; hint: name fewer policies or sizes, at most {MOST_SETTINGS} together"
        )
    return settings


def _limit_on(size: int, limit: Size) -> int:
    limit_of(limit, None, size)
    return parse_bytes(limit, of=size, what="limit", round_down=True)
