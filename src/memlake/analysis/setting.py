"""Settings: one way to configure PyTorch, with its gain and its price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from memlake.units import format_bytes
from memlake.wording import counted

if TYPE_CHECKING:
    from memlake.policies import Options
    from memlake.replaying.result import ReplayResult

__all__ = ["NOT_ON_A_GPU", "PricedLine", "Setting", "head_to_json", "install_line", "sentence_about"]

NOT_ON_A_GPU = "at the beginning of the program; it was not tried on a GPU yet"
"""What to know about `install_line`."""


def install_line(configuration: str = "") -> str:
    """Returns the line that makes memlake PyTorch's allocator; `configuration`: empty for that of `install`."""
    return f"import memlake.torch; memlake.torch.install({configuration and repr(configuration)})"


class PricedLine(Protocol):
    """A line that makes PyTorch use options, with its gain and its price: on one rank, or on all ranks of a job."""

    @property
    def line(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def options(self) -> Options: ...
    @property
    def gain(self) -> str: ...
    @property
    def price(self) -> str: ...


def sentence_about(setting: PricedLine) -> str:
    """Returns a setting, its gain and its price, as text."""
    note = f" ({setting.note})" if setting.note else ""
    return f"{setting.line}{note}: {setting.gain}; {setting.price}."


def head_to_json(setting: PricedLine) -> dict[str, Any]:
    """Returns what the JSON objects of all settings begin with, as a dict."""
    return {
        "line": setting.line,
        "note": setting.note,
        "policy": setting.options.name,
        "options": setting.options.to_text(),
    }


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Options of PyTorch's allocator, compared with what the job ran under.

    Attributes:
        result: the replay with the options.
        own: the replay of what the job ran under, or of PyTorch's default if that is not known.
        line: the assignment that makes PyTorch use the options.
        note: what a reader must know about the line; empty if there is nothing.
        num_steps: the number of steps in the trace; 0 if it has none.
    """

    result: ReplayResult
    own: ReplayResult
    line: str
    note: str = ""
    num_steps: int = 0

    @property
    def options(self) -> Options:
        """The options."""
        return self.result.options

    @property
    def saved(self) -> int | None:
        """How many bytes less are held at the peak; None if one of the two ran out of memory."""
        return self.own.peak_held - self.result.peak_held if self.own.ran and self.result.ran else None

    @property
    def driver_ms_per_step(self) -> float | None:
        """The modelled driver time per step of the trace; None without steps."""
        total = self.result.modelled_driver_ms
        return total / self.num_steps if total is not None and self.num_steps else None

    @property
    def gain(self) -> str:
        """What the setting improves, as text."""
        left = format_bytes(self.result.budget - self.result.peak_held)
        held = f"holds {format_bytes(self.result.peak_held)}"
        if self.saved is None:
            return f"fits, where {self.own.label} runs out of memory; {held} and leaves {left}"
        if self.saved == 0:
            return f"{held}, as {self.own.label} does"
        change = f"{format_bytes(abs(self.saved))} {'less' if self.saved > 0 else 'more'}"
        return f"{held}, {change} than {self.own.label}, and leaves {left}"

    @property
    def price(self) -> str:
        """What the setting costs, as text: driver time and stalls."""
        per_step = self.driver_ms_per_step
        time = f"{self.result.modelled_driver_ms or 0:.0f} ms in the driver"
        if per_step is not None:
            time = f"{per_step:.1f} ms in the driver per step"
        number = self.result.stalls
        stalls = "no stalls" if not number else counted(number, "stall")
        if not self.own.ran:
            return f"{time}, {stalls}"
        own_ms = (self.own.modelled_driver_ms or 0) / (self.num_steps or 1)
        own_time = f"{own_ms:.1f}" if self.num_steps else f"{own_ms:.0f}"
        return f"{time} ({self.own.label}: {own_time}), {stalls} ({self.own.label}: {self.own.stalls})"

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<memlake.Setting: {self.line}>"

    @property
    def sentence(self) -> str:
        """The setting, its gain and its price, as text."""
        return sentence_about(self)

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as a dict."""
        return head_to_json(self) | {
            "outcome": self.result.outcome,
            "peak_held": self.result.peak_held,
            "over_live": self.result.held_over_live,
            "saved": self.saved,
            "driver_ms": self.result.modelled_driver_ms,
            "driver_ms_per_step": self.driver_ms_per_step,
            "stalls": self.result.stalls,
            "sentence": self.sentence,
        }
