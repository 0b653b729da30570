"""python -m tests.emulator.suites [NAME]...: runs other packages' own tests on the emulator and compares the results.

NAME is a suite (`cuda-core`) or a file of one (`cuda-core:FILE`, as `catalogue.py` names it); without one all suites
run. The folder of the checked-out tests is given by --suites or MEMLAKE_SUITES. The exit code is 1 if a result is not
the one in `expected/`, or if a test crashed the process. It is 2 if there is no test to run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.emulator.suites.catalogue import SETTINGS, SUITES, Suite, how_to_get
from tests.emulator.suites.environments import ENVIRONMENTS, UnavailableError, environment
from tests.emulator.suites.expectations import Expected, differences, load, reasons, renewed
from tests.emulator.suites.running import Outcome, emulated, run_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMNS = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "crashed")


def chosen(suite: Suite, names: Sequence[str]) -> tuple[str, ...]:
    """The files of a suite that the names of the command line ask for."""
    if not names or suite.name in names:
        return suite.files
    return tuple(file for file in suite.files if f"{suite.name}:{file}" in names)


def unknown(names: Sequence[str]) -> list[str]:
    """The names that are neither a suite nor a file of one."""
    known = {suite.name for suite in SUITES} | {f"{suite.name}:{file}" for suite in SUITES for file in suite.files}
    return [name for name in names if name not in known]


def count(found: Mapping[str, Outcome]) -> str:
    """The outcomes of a file in one line."""
    counts = Counter(outcome.outcome for outcome in found.values())
    return ", ".join(f"{counts[name]} {name}" for name in COLUMNS if counts[name]) or "no tests"


def run(suite: Suite, files: Sequence[str], checkout: Path) -> dict[str, dict[str, Outcome]]:
    """Runs files of a suite; returns the outcomes by file and test."""
    pytest = environment(suite.environment) / "bin" / "pytest"
    logs = ENVIRONMENTS / "logs" / suite.name
    logs.mkdir(parents=True, exist_ok=True)
    command = [str(pytest), "-p", "no:cacheprovider", "--tb=short", "--no-showlocals", *suite.options]
    found: dict[str, dict[str, Outcome]] = {}
    for file in files:
        log = logs / f"{file.replace('/', '.')}.log"
        found[file] = run_file(emulated([*command, file], SETTINGS), checkout / suite.folder, os.environ, log)
        print(f"{suite.name}: {file}: {count(found[file])}", flush=True)
    return found


def report(suite: Suite, found: Mapping[str, Mapping[str, Outcome]]) -> int:
    """Prints every difference from the table; returns how many there are."""
    table = load(suite.table)
    total = 0
    for file, outcomes in found.items():
        sentences = differences(table.get(file, Expected()), outcomes, reasons())
        for sentence in sentences:
            print(f"{suite.name}: FAILED {file}: {sentence}")
        total += len(sentences)
    counts = count({f"{file}::{test}": outcome for file, of_file in found.items() for test, outcome in of_file.items()})
    print(f"{suite.name}: {counts}; {total} differences from {suite.table.name}", flush=True)
    return total


def write(suite: Suite, found: Mapping[str, Mapping[str, Outcome]]) -> None:
    """Renews the table of the files that ran; files that the suite does not name any more are dropped."""
    before = json.loads(suite.table.read_text()) if suite.table.exists() else {}
    table = load(suite.table)
    new = {file: renewed(table.get(file, Expected()), outcomes, reasons()) for file, outcomes in found.items()}
    kept = {file: {**before, **new}[file] for file in suite.files if file in before or file in new}
    suite.table.parent.mkdir(exist_ok=True)
    suite.table.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.emulator.suites", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a suite, or SUITE:FILE; default: all")
    parser.add_argument("--suites", type=Path, default=os.environ.get("MEMLAKE_SUITES"), help="the folder of checkouts")
    parser.add_argument("--write", action="store_true", help="write what was found to expected/ instead of comparing")
    parser.add_argument("--json", type=Path, help="write all outcomes and their messages to this file")
    arguments = parser.parse_args()
    if bad := unknown(arguments.names):
        parser.error(f"there is no suite or file {', '.join(bad)}; the suites are {', '.join(s.name for s in SUITES)}")
    if not arguments.suites:
        print(f"tests/emulator/suites: the tests are not a part of memlake: {how_to_get()}", file=sys.stderr)
        return 2
    failures, everything = 0, {}
    for suite in SUITES:
        files = chosen(suite, arguments.names)
        checkout = Path(arguments.suites).resolve() / suite.name
        if not files:
            continue
        if not (checkout / suite.folder).is_dir():
            print(f"{suite.name}: not run: {checkout} is not a checkout of {suite.repository}, tag {suite.tag}")
            continue
        try:
            found = run(suite, files, checkout)
        except UnavailableError as reason:
            print(f"{suite.name}: not run: {reason}")
            continue
        everything[suite.name] = found
        if arguments.write:
            write(suite, found)
        else:
            failures += report(suite, found)
    if arguments.json is not None:
        plain = {
            suite: {
                file: {test: [o.outcome, o.reason, o.evidence] for test, o in tests.items()}
                for file, tests in files.items()
            }
            for suite, files in everything.items()
        }
        arguments.json.write_text(json.dumps(plain, indent=1) + "\n")
    if not everything:
        print(f"tests/emulator/suites: no suite was run: {how_to_get()}", file=sys.stderr)
        return 2
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
