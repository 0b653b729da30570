"""What memlake holds as PyTorch's allocator in whole programs, beside PyTorch's own allocators.

Every program in tests/peers/scripts/ runs to its end in the lab (see `benchmarks/peerlab.py`) under three allocators:
on a device of 80 GiB, for its peaks, and then on smaller and smaller devices, for the smallest one on which it still
runs, to half a percent. `python -m benchmarks.pytorch_figures [NAME]... [--write]` prints the table; with --write it
renews pytorch_figures.json and the table in docs/reference/pytorch_figures.md.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Figures, Goal, SkippedError
from benchmarks.peerlab import MODES, PEERS, ROOT, Peerlab, find_peerlab

TABLE = ROOT / "benchmarks" / "pytorch_figures.json"
PAGE = ROOT / "docs" / "reference" / "pytorch_figures.md"
GIB, GRANULE = 2**30, 2 * 2**20
CAPACITY = 80 * GIB
PRECISION = 1.005
"""The smallest device that runs over the largest one that does not."""


class ScriptRunner:
    """A process of the lab that runs one program on devices of any size."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Takes a started process with pipes."""
        self._process = process

    def on(self, capacity: int) -> dict[str, Any]:
        """Runs the program to its end; `error` is None if it got there."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the runner has no pipes")
        self._process.stdin.write(f"{capacity}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the runner of a program died")
        result: dict[str, Any] = json.loads(line)
        if (result["error"] or "").startswith("ModuleNotFoundError"):
            raise SkippedError(f"the lab lacks a package: {result['error']}; install it into its vt")
        if result["error"] is not None and not result["error"].startswith("OutOfMemoryError"):
            raise RuntimeError(f"the program failed on {capacity / GIB:.2f} GiB: {result['error']}")
        return result


@contextmanager
def runner(lab: Peerlab, mode: str, script: Path) -> Iterator[ScriptRunner]:
    """A runner that ends with the block."""
    with subprocess.Popen(
        lab.command("-m", "inside.run_script", str(script)),
        env=lab.environment(mode),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield ScriptRunner(process)
        if process.stdin is not None:
            process.stdin.close()


def smallest_device(program: ScriptRunner, requested: int, held: int) -> tuple[int, int]:
    """Returns the smallest device on which the program ran, and the retries there.

    Less than was requested at one moment cannot suffice, so the search begins above it. A program that runs on a device
    runs on every larger one in almost all cases, so halving finds the border.
    """
    low, high, retries = requested // GRANULE * GRANULE, CAPACITY, 0
    middle = held
    while high > low * PRECISION:
        result = program.on(middle)
        if result["error"] is None:
            high, retries = middle, result["retries"]
        else:
            low = middle
        middle = (low + high) // 2 // GRANULE * GRANULE
    return high, retries


def figures_of(lab: Peerlab, mode: str, script: Path) -> dict[str, Any]:
    """Everything about one program under one allocator."""
    with runner(lab, mode, script) as program:
        roomy = program.on(CAPACITY)
        if roomy["error"] is not None:
            return {"runs": False}
        smallest, retries = smallest_device(program, roomy["requested_peak"], roomy["held_peak"])
    return {
        "runs": True,
        "live_peak": roomy["live_peak"],
        "requested_peak": roomy["requested_peak"],
        "held_peak": roomy["held_peak"],
        "allocations": roomy["allocations"],
        "retries": roomy["retries"],
        "ooms": roomy["ooms"],
        "smallest": smallest,
        "retries_on_smallest": retries,
    }


def scripts(names: list[str]) -> list[Path]:
    """The programs, or those with these names."""
    found = sorted((PEERS / "scripts").glob("*.py"))
    if unknown := set(names) - {path.stem for path in found}:
        raise SystemExit(f"no program is named {', '.join(sorted(unknown))}")
    return [path for path in found if not names or path.stem in names]


def losses(table: Mapping[str, Mapping[str, Any]], peer: str = "expandable") -> list[str]:
    """A sentence for every figure in which memlake is worse than one of PyTorch's allocators."""
    found = []
    for name, row in table.items():
        ours, theirs = row["memlake"], row[peer]
        if theirs["runs"] and not ours["runs"]:
            found.append(f"{name}: runs out of memory on 80 GiB")
            continue
        if not theirs["runs"] or not ours["runs"]:
            continue
        if ours["held_peak"] > theirs["held_peak"]:
            more = ours["held_peak"] - theirs["held_peak"]
            found.append(f"{name}: held peak {more / 2**20:.0f} MiB more ({more / theirs['held_peak']:.2%})")
        if ours["smallest"] > theirs["smallest"] * PRECISION:
            more = ours["smallest"] - theirs["smallest"]
            found.append(f"{name}: smallest device {more / 2**20:.0f} MiB more ({more / theirs['smallest']:.2%})")
    return found


def markdown(table: Mapping[str, Mapping[str, Any]]) -> str:
    """The table; a figure of memlake that is worse than expandable's is bold."""
    lines = [
        "| program | allocations | live peak | held: native | expandable | memlake | "
        "smallest: native | expandable | memlake | retries there: native | expandable | memlake |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in sorted(table.items()):
        cells = [name, str(row["native"].get("allocations", "-")), gib(row["native"], "live_peak")]
        for figure, slack in (("held_peak", 1.0), ("smallest", PRECISION)):
            for mode in MODES:
                cell = gib(row[mode], figure)
                is_worse = (
                    mode == "memlake"
                    and row["expandable"]["runs"]
                    and (not row[mode]["runs"] or row[mode][figure] > row["expandable"][figure] * slack)
                )
                cells.append(f"**{cell}**" if is_worse else cell)
        cells += [str(row[mode].get("retries_on_smallest", "-")) for mode in MODES]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def gib(figures: Mapping[str, Any], name: str) -> str:
    """A size in GiB."""
    return f"{figures[name] / GIB:.3f}" if figures["runs"] else "out of memory"


def committed() -> dict[str, dict[str, Any]]:
    """The table that the project keeps."""
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text())["programs"] if TABLE.exists() else {}
    return table


def measured(lab: Peerlab, script: Path, modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """The figures of a program, as they are now; a line for each allocator on the standard error."""
    row = {}
    for mode in modes:
        row[mode] = figures_of(lab, mode, script)
        said = f"held {gib(row[mode], 'held_peak')} smallest {gib(row[mode], 'smallest')}"
        print(f"{script.stem} {mode} {said}", file=sys.stderr, flush=True)
    return row


def measure() -> Figures:
    """In how many figures memlake is worse than expandable segments, and the sums."""
    lab = find_peerlab()
    now = {}
    for script in scripts([]):
        try:
            now[script.stem] = measured(lab, script)
        except SkippedError as reason:
            print(f"pytorch_figures: {script.stem} is left out: {reason}")
    for sentence in losses(now):
        print(f"pytorch_figures: {sentence}")
    figures = {"programs": Figure(len(now), "programs"), "losses": Figure(len(losses(now)), "figures")}
    for name in ("held_peak", "smallest"):
        for mode in ("native", "expandable"):
            both = [row for row in now.values() if row[mode]["runs"] and row["memlake"]["runs"]]
            share = sum(row["memlake"][name] / row[mode][name] for row in both) / len(both)
            figures[f"{name}_of_{mode}"] = Figure(share, f"of {mode}'s, mean")
    return Figures("pytorch_figures", figures, Goal("losses", 0))


def complete(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The programs that were measured under every allocator."""
    return {name: row for name, row in table.items() if set(MODES) <= row.keys()}


def write(table: Mapping[str, Mapping[str, Any]]) -> None:
    """Renews the JSON, and the page with the programs that were measured under every allocator."""
    whole = complete(table)
    TABLE.write_text(json.dumps({"losses": losses(whole), "programs": table}, indent=1, sort_keys=True) + "\n")
    before, _, rest = PAGE.read_text().partition("<!-- the table -->\n")
    behind = re.split(r"(?=<!-- end of the table -->)", rest)[-1]
    worse = ""
    for peer, called in (("expandable", "expandable segments"), ("native", "PyTorch's native allocator")):
        listed = "".join(f"- {sentence}\n" for sentence in losses(whole, peer)) or "None.\n"
        worse += f"Figures in which memlake is worse than {called}:\n\n{listed}\n"
    PAGE.write_text(f"{before}<!-- the table -->\n\n{markdown(whole)}\n{worse}{behind}")


def main() -> int:
    """Prints the table for people; with --write it becomes the project's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pytorch_figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a program of tests/peers/scripts; default: all")
    parser.add_argument("--modes", default=",".join(MODES), help="measure only these; default: %(default)s")
    parser.add_argument("--write", action="store_true", help="renew the JSON and the page")
    arguments = parser.parse_args()
    try:
        lab = find_peerlab()
    except SkippedError as reason:
        print(f"pytorch_figures: {reason}", file=sys.stderr)
        return 2
    table = committed()
    for script in scripts(arguments.names):
        found = measured(lab, script, tuple(arguments.modes.split(",")))
        table[script.stem] = {**table.get(script.stem, {}), **found}
        if arguments.write:
            write(table)
    print(markdown(complete(table)))
    for sentence in losses(complete(table)):
        print(f"loss: {sentence}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
