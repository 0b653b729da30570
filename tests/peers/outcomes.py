"""Comparing the outcome of a probe with native's, and with the differences that are expected.

An outcome is what `inside/run_probes.py` prints. `expected.json` has, for a probe and a mode, the places in the outcome
that may differ from native's: `{"place": {"why": reason}}`. With `"is"` the place must have this very value; at the
place `error` it is a part of the message. `"group.*"` is about all probes of a group that have no entry of their own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXPECTED = Path(__file__).parent / "expected.json"
NOTHING = "(nothing)"


@dataclass(frozen=True)
class Difference:
    """One place where an outcome is not native's."""

    place: str
    native: Any
    found: Any

    def __str__(self) -> str:
        """The place and both values, shortened."""
        return f"{self.place}: native {_short(self.native)}, here {_short(self.found)}"


def differences(native: Any, found: Any, place: str = "") -> Iterator[Difference]:
    """Yields every place where two outcomes differ: a name or an index for each level, joined by dots."""
    if isinstance(native, dict) and isinstance(found, dict):
        for name in sorted(native.keys() | found.keys()):
            yield from differences(native.get(name, NOTHING), found.get(name, NOTHING), _below(place, name))
    elif isinstance(native, list) and isinstance(found, list) and len(native) == len(found):
        for index, (first, second) in enumerate(zip(native, found, strict=True)):
            yield from differences(first, second, _below(place, str(index)))
    elif native != found:
        yield Difference(place, native, found)


def expectations(mode: str) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """The differences of a mode that are expected: probe, place, reason. `memlake:stitch` has those of `memlake`."""
    found: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for probe, of_modes in json.loads(EXPECTED.read_text()).items():
        of_mode = of_modes.get(mode) or of_modes.get(mode.partition(":")[0])
        if of_mode:
            found[probe] = of_mode
    return found


def expected_of(probe: str, expected: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Mapping[str, Mapping[str, Any]]:
    """The expected differences of a probe, or else of its group."""
    return expected.get(probe) or expected.get(f"{probe.partition('.')[0]}.*") or {}


def is_untrue(outcome: Mapping[str, Any]) -> str | None:
    """The sentence that does not hold under this allocator, or how its process died; None: nothing of this kind."""
    if outcome.get("error") == "UntrueError":
        return f"not true: {outcome['message']}"
    if "books" in outcome:
        return f"the books are not true: {outcome['books']}"
    if outcome.get("exit_code", 0) != 0:
        return f"the process ended with {outcome['exit_code']}: {outcome.get('stderr', '')[-300:]}"
    return None


def unexpected(native: Any, found: Any, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The differences that no expectation allows. An expected `error` also covers the value that is then missing."""
    if "error" in found and found.get("error") != native.get("error"):
        allowed = expected.get("error")
        if allowed is None or allowed.get("is", found["message"]) not in found["message"]:
            return [is_untrue(found) or f"{found['error']} in {found['where']}: {_short(found['message'])}"]
        return []
    sentences = []
    for difference in differences(native, found):
        allowed = _rule_for(difference.place, expected)
        if allowed is None:
            sentences.append(str(difference))
        elif "is" in allowed and allowed["is"] != difference.found:
            sentences.append(f"{difference}; expected {_short(allowed['is'])}")
    return sentences


def unused(native: Any, found: Any, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The expected differences that are not there."""
    places = [difference.place for difference in differences(native, found)]
    return [rule for rule in expected if not any(_is_at(place, rule) for place in places)]


def _rule_for(place: str, expected: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((allowed for rule, allowed in expected.items() if _is_at(place, rule)), None)


def _is_at(place: str, rule: str) -> bool:
    return place == rule or place.startswith(f"{rule}.")


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
