"""What a case expects of a driver, and what becomes of an answer that differs.

On the emulator a difference fails the case at once: the contract is its law. On a real driver the contract is what is
under test: every difference is noted, the case goes on, and it fails at its end unless the contract itself says that it
does not know (label U).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.abi_picture import picture
from helpers.abi_types import VIOLATION, result_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers.abi_driver import Driver
    from helpers.abi_world import World

LABELS = {"D": "documented", "O": "observed", "I": "inferred", "U": "unknown"}


@dataclass(frozen=True)
class Row:
    """One question to the driver, and its answer. Questions of no numbered case have the case 0."""

    case: int
    what: str
    label: str
    expected: str
    got: str
    agrees: bool
    test: str = ""
    """The name of the test, for questions of no numbered case."""

    def sentence(self) -> str:
        """For people."""
        meaning = "/".join(LABELS[letter] for letter in self.label.split("/"))
        case = f"case {self.case}: " if self.case else ""
        return f"{case}{self.what}: got {self.got}, the contract expects {self.expected} ({meaning})"


@dataclass
class Expectations:
    """The expectations of one case."""

    case: int
    driver: Driver
    is_report: bool
    rows: list[Row] = field(default_factory=list)
    violations: int = 0
    test: str = ""
    note: str = ""
    """What else a person needs to see a difference again, for instance a seed."""
    _judged: int = 0

    def __call__(self, what: str, code: int, want: int, label: str) -> None:
        """The driver's result code."""
        self._compare(what, int(code), int(want), label, result_name)

    def equal(self, what: str, got: object, want: object, label: str) -> None:
        """A value the driver answered. One that agrees is not written down: it may be an address, new in every run."""
        self._compare(what, got, want, label, repr if got != want else lambda _: "as expected")

    def that(self, what: str, is_so: bool, label: str) -> None:
        """A statement about what the driver answered."""
        self._compare(what, is_so, True, label, lambda truth: "yes" if truth else "no")

    def violation(self, what: str, code: int, label: str, want: int = VIOLATION) -> None:
        """A call that breaks the contract. Call it directly after the call, and only on the emulator: the real driver
        may crash or corrupt memory."""
        sentence = self.driver.last_violation()
        self.violations += 1
        self(what, code, want, label)
        self.that(f"{what}: the violation is explained", sentence != "", label)

    @contextmanager
    def no_effect(self, world: World, label: str) -> Iterator[None]:
        """Whatever is asked of the driver inside the block changes nothing."""
        before = picture(world)
        yield
        after = picture(world)
        changed = {
            key: (before.get(key), after.get(key)) for key in before | after if before.get(key) != after.get(key)
        }
        self.equal("a refused call has no effect", changed, {}, label)

    def _compare(self, what: str, got: Any, want: Any, label: str, show: Callable[[Any], str]) -> None:
        agrees = got == want
        told = f"{what} [{self.note}]" if self.note and not agrees else what
        row = Row(self.case, told, label, show(want), show(got), agrees, "" if self.case else self.test)
        self.rows.append(row)
        if not agrees and not self.is_report:
            explanation = self.driver.last_error()
            raise AssertionError(row.sentence() + (f". The driver says: {explanation}" if explanation else ""))

    def verdict(self) -> None:
        """Fails a case whose differences since the last verdict touch anything but the unknown."""
        new = self.rows[self._judged :]
        self._judged = len(self.rows)
        wrong = [row for row in new if not row.agrees and "U" not in row.label.split("/")]
        if wrong:
            raise AssertionError("\n".join(dict.fromkeys(row.sentence() for row in wrong)))
