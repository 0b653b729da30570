"""The health of this machine: whether memlake works here, and which drivers and packages there are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from memlake.printable import Printable

__all__ = ["BROKEN", "EMULATOR", "GOOD", "NOTE", "Finding", "Health"]

GOOD, NOTE, BROKEN = "ok", "note", "broken"
"""The states of findings."""
EMULATOR = "memlake's emulator"
"""The words for the emulator in the findings about drivers."""


@dataclass(frozen=True)
class Finding:
    """One checked item.

    Attributes:
        topic: ``"memlake"``, ``"driver"``, ``"device N"`` for the features of a device, ``"frameworks"``, ``"extras"``
            or ``"system"``.
        name: the name of the item.
        state: ``"ok"``; ``"note"`` if the item is missing or may become a limit; ``"broken"`` if memlake cannot work.
        value: what was found.
        advice: what to do; empty if there is nothing to do.
    """

    topic: str
    name: str
    state: str
    value: str
    advice: str = ""


@dataclass(frozen=True)
class Health(Printable, table="health"):
    """The findings of all checks. `print` shows them as ``memlake doctor`` does."""

    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        """True if memlake works on this machine. It needs no GPU."""
        return all(finding.state != BROKEN for finding in self.findings)

    @property
    def sentence(self) -> str:
        """The outcome as a sentence."""
        broken = [finding for finding in self.findings if finding.state == BROKEN]
        if broken:
            return f"memlake does not work here: {broken[0].name}: {broken[0].value}. {broken[0].advice}".strip()
        if any(finding.name == "device 0" for finding in self.findings):
            return "memlake works here, on the GPU and on emulated ones."
        # With the emulator as the driver the real one was not looked for.
        is_emulated = any(finding.topic == "driver" and EMULATOR in finding.value for finding in self.findings)
        why = f"the driver of this process is {EMULATOR}" if is_emulated else "there is no real one"
        return f"memlake works here, on emulated GPUs; {why}."

    def __repr__(self) -> str:
        return f"<memlake.Health: {'good' if self.is_good else 'broken'}, {len(self.findings)} findings>"

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake doctor --json`` prints, as a dict."""
        return {
            "works": self.is_good,
            "findings": [asdict(finding) for finding in self.findings],
            "sentence": self.sentence,
        }
