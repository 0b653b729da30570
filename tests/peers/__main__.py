"""python -m tests.peers [NAME]...: asks PyTorch the same questions under three allocators and compares the answers.

NAME is a probe (`statistics.allocated`) or a group (`statistics`); without one all probes run. The exit code is 1 if an
answer differs from that of PyTorch's native allocator and `expected.json` does not allow it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import SkippedError
from benchmarks.peerlab import MODES, Peerlab, find_peerlab
from tests.peers.outcomes import expectations, expected_of, is_untrue, unexpected, unused

if TYPE_CHECKING:
    from collections.abc import Iterator


def answers(lab: Peerlab, mode: str, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yields the name and the outcome of each probe in a mode, when it is known."""
    with subprocess.Popen(
        lab.command("-m", "inside.run_probes", *names), env=lab.environment(mode), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            yield found["probe"], found["outcome"]
    if process.returncode != 0:
        raise RuntimeError(f"the probes could not be run in the mode {mode}: exit code {process.returncode}")


def run(lab: Peerlab, modes: list[str], names: list[str], file: Path | None) -> int:
    """Runs the probes in every mode; returns the number of failures."""
    outcomes: dict[str, dict[str, Any]] = {}
    failures = 0
    for mode in ["native", *(mode for mode in modes if mode != "native")]:
        expected = expectations(mode)
        equal = allowed = failed = 0
        for name, outcome in answers(lab, mode, names):
            outcomes.setdefault(name, {})[mode] = outcome
            if file is not None:  # after each, so that a run that is ended leaves what it has found
                file.write_text(json.dumps(outcomes, indent=1) + "\n")
            if mode == "native":
                sentences = [sentence] if (sentence := is_untrue(outcome)) else []
                stale: list[str] = []
                if not sentences and "error" in outcome:
                    print(f"native: note: {name} is refused here: {outcome['error']}: {outcome['message'][:200]}")
            else:
                native = outcomes[name]["native"]
                allowed_here = expected_of(name, expected)
                sentences = unexpected(native, outcome, allowed_here)
                stale = unused(native, outcome, allowed_here) if name in expected else []
            for sentence in sentences:
                print(f"{mode}: FAILED {name}: {sentence}", flush=True)
            for place in stale:
                print(f"{mode}: note: {name}: {place} does not differ any more, expected.json says that it does")
            failed += bool(sentences)
            if not sentences:
                is_equal = mode == "native" or outcome == outcomes[name]["native"]
                equal, allowed = equal + is_equal, allowed + (not is_equal)
        print(f"{mode}: {equal} probes as native, {allowed} with an expected difference, {failed} failed", flush=True)
        failures += failed
    return failures


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a probe or a group of probes; default: all")
    parser.add_argument("--modes", default=",".join(MODES), help="native always runs; default: %(default)s")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    arguments = parser.parse_args()
    try:
        lab = find_peerlab()
    except SkippedError as reason:
        print(f"tests/peers: {reason}", file=sys.stderr)
        return 2
    return 1 if run(lab, arguments.modes.split(","), arguments.names, arguments.json) else 0


if __name__ == "__main__":
    raise SystemExit(main())
