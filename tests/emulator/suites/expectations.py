"""The table of a suite's expected results, and the comparison with what was found.

`expected/SUITE.json` has, for each file, the number of tests that pass, and rules for all others:

    {"FILE": {"passed": 112, "others": [
      {"outcome": "failed", "count": 3, "why": "runtime", "tests": ["test_sync", "test_copy[*]"]}]}}

`tests` has ids; `*` stands for any text. `count` is the number of tests that the rule covers. `why` is a key of
`expected/reasons.json`. A crash is never expected. A reason there has a sentence, and a sign by which it can be told: a
regular expression that every message, or what the test wrote, must match. So no test fails for another reason than the
one that its rule names. With `may_pass` the outcome depends on the speed of the machine, and a pass is right, too.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.emulator.suites.running import Outcome

REASONS = Path(__file__).parent / "expected" / "reasons.json"
EXPECTABLE = ("failed", "error", "skipped", "xfailed", "xpassed")


@dataclass(frozen=True)
class Reason:
    """Why tests do not pass."""

    sentence: str
    sign: str
    may_pass: bool = False

    def shows_in(self, outcome: Outcome) -> bool:
        """Whether the outcome has the sign of this reason."""
        return re.search(self.sign, f"{outcome.reason}\n{outcome.evidence}", re.MULTILINE) is not None


@dataclass(frozen=True)
class Rule:
    """Tests of one file that do not pass, with the reason."""

    outcome: str
    count: int
    why: str
    tests: tuple[str, ...]

    def covers(self, test: str) -> bool:
        """Whether the rule is about this test."""
        return any(matches(pattern, test) for pattern in self.tests)


@dataclass(frozen=True)
class Expected:
    """What a file must come to."""

    passed: int = 0
    others: tuple[Rule, ...] = field(default=())


def matches(pattern: str, test: str) -> bool:
    """Whether the id fits the pattern, in which only `*` has a meaning."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), test, re.DOTALL) is not None


def load(table: Path) -> dict[str, Expected]:
    """Reads a table; a missing file is an empty table."""
    if not table.exists():
        return {}
    return {
        file: Expected(
            entry["passed"],
            tuple(Rule(rule["outcome"], rule["count"], rule["why"], tuple(rule["tests"])) for rule in entry["others"]),
        )
        for file, entry in json.loads(table.read_text()).items()
    }


def totals(table: Mapping[str, Expected]) -> Counter[str]:
    """The number of tests with each outcome that a table expects."""
    found: Counter[str] = Counter()
    for expected in table.values():
        found["passed"] += expected.passed
        for rule in expected.others:
            found[rule.outcome] += rule.count
    return found


def reasons() -> dict[str, Reason]:
    """The reasons, by key."""
    return {key: Reason(**entry) for key, entry in json.loads(REASONS.read_text()).items()}


def faults(expected: Expected, known: Mapping[str, Reason]) -> Iterator[str]:
    """Yields what is wrong with a table itself."""
    for rule in expected.others:
        about = f"{rule.outcome} {rule.tests[0] if rule.tests else '(no test)'}"
        if rule.outcome not in EXPECTABLE:
            yield f"{about}: {rule.outcome!r} cannot be expected"
        if rule.why not in known:
            yield f"{about}: expected/reasons.json has no reason {rule.why!r}"
        if not any("*" in pattern for pattern in rule.tests) and rule.count != len(rule.tests):
            yield f"{about}: lists {len(rule.tests)} tests and counts {rule.count}"


def differences(expected: Expected, found: Mapping[str, Outcome], known: Mapping[str, Reason]) -> list[str]:
    """Every difference between a table and the outcomes of a file, as sentences; empty: as expected."""
    if unsound := list(faults(expected, known)):
        return unsound
    sentences: list[str] = []
    counts = dict.fromkeys(expected.others, 0)
    passed = 0
    for test, outcome in found.items():
        if outcome.outcome == "passed":
            named = [rule for rule in expected.others if test in rule.tests]
            sentences.extend(
                f"unexpected pass: {test} (expected: {rule.outcome}, {rule.why})"
                for rule in named
                if not known[rule.why].may_pass
            )
            passed += not any(known[rule.why].may_pass for rule in named)
            continue
        about = [rule for rule in expected.others if rule.covers(test)]
        fitting = [rule for rule in about if rule.outcome == outcome.outcome]
        if outcome.outcome == "crashed":
            sentences.append(f"crash: {test}: {outcome.reason}")
        elif fitting:
            counts[fitting[0]] += 1
            reason = known[fitting[0].why]
            if not reason.shows_in(outcome):
                sentences.append(
                    f"{outcome.outcome} for another reason than {fitting[0].why}, which shows as /{reason.sign}/: "
                    f"{test}: {outcome.reason}"
                )
        else:
            instead = f" (expected: {about[0].outcome}, {about[0].why})" if about else ""
            sentences.append(f"unexpectedly {outcome.outcome}: {test}{instead}: {outcome.reason}")
    for rule, count in counts.items():
        missing = [test for test in rule.tests if "*" not in test and test not in found]
        sentences.extend(f"no such test any more: {test} (expected: {rule.outcome}, {rule.why})" for test in missing)
        if count != rule.count and any("*" in test for test in rule.tests):
            sentences.append(f"{count} tests {rule.outcome} instead of {rule.count}: {', '.join(rule.tests)}")
    if passed != expected.passed:
        sentences.append(f"{passed} tests passed, {expected.passed} are expected")
    return sentences


def renewed(expected: Expected, found: Mapping[str, Outcome], known: Mapping[str, Reason]) -> dict[str, Any]:
    """The table of a file for what was found.

    Tests keep their reason while its sign shows, and if it may pass also when they passed. Every other test that did
    not pass has the reason "", to be written.
    """
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    passed = 0
    for test, outcome in found.items():
        rules = [rule for rule in expected.others if rule.covers(test) and rule.why in known]
        varying = [rule for rule in rules if known[rule.why].may_pass and outcome.outcome in ("passed", rule.outcome)]
        fitting = [rule for rule in rules if rule.outcome == outcome.outcome and known[rule.why].shows_in(outcome)]
        if varying:
            groups[varying[0].outcome, varying[0].why].append(test)
        elif outcome.outcome == "passed":
            passed += 1
        elif outcome.outcome != "crashed":
            groups[outcome.outcome, fitting[0].why if fitting else ""].append(test)
    return {
        "passed": passed,
        "others": [
            {"outcome": outcome, "count": len(tests), "why": why, "tests": patterns(tests, found)}
            for (outcome, why), tests in sorted(groups.items())
        ],
    }


def patterns(tests: Sequence[str], every: Mapping[str, object]) -> list[str]:
    """The ids, with `name[*]` for a test of which all cases belong to the list."""
    chosen = set(tests)
    found: dict[str, None] = {}
    for test in tests:
        name, bracket, _ = test.partition("[")
        cases = [other for other in every if other.startswith(f"{name}[")]
        whole = bool(bracket) and len(cases) > 1 and chosen.issuperset(cases)
        found[f"{name}[*]" if whole else test] = None
    return sorted(found)
