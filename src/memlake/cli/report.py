"""``memlake report TRACE... -o report.html``: one page about a job, with charts, that works offline."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import Progress, print_json
from memlake.cli.output_file import refuse_to_replace
from memlake.cli.replay_arguments import add_capacity, add_events, add_policies
from memlake.cli.trace_argument import add_traces, job_of, load_trace
from memlake.errors import ConfigError
from memlake.tables.terminal import print_text, visible
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.cli.command import Commands
    from memlake.html_report import Report, ReportWishes, SweepReport

__all__ = ["add_to"]

_DESCRIPTION = """\
Writes one HTML file about a job: what happened and what to do, live and held memory over time under each policy, the
address map at any moment, what made up the peak, the driver calls, the streams. The file loads nothing from a network
and can be sent around. For several files or a folder it shows all ranks, the worst first; with --diff it shows two
files and what grew between them. Of the results of memlake sweep, it shows a heat map by rank and setting, the worst
rank, and the one setting that serves all.
"""

_EXAMPLE = """\
examples:
  memlake report snapshot.pickle
  memlake report snapshot.pickle -o oom.html --capacity 80GiB
  memlake report train_opt-13b_lora_offload --capacity 64GiB
  memlake report run/snapshots -o ranks.html
  memlake report --diff before.pickle after.pickle
  memlake report train_opt-13b_lora_offload --capacity 64GiB --steps 6 6
  memlake report memlake_sweep.jsonl -o sweep.html

exit code: 0 if the file was written, 2 for bad input, also if one of several files cannot be read
"""

_LARGEST = 15 * 2**20
_FOR_TRACES = {
    **dict.fromkeys(("capacity", "reserve", "limit", "policies", "steps", "device")),
    "events": "immediate",
    "diff": False,
    "without_stacks": False,
}
"""Options that mean nothing for the results of a sweep, with what they are if they are not given."""
_OPTIONS = {"policies": "policy", "without_stacks": "without-stacks"}


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "report",
        _run,
        help="one page with charts and the address map, to open in a browser",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    add_traces(parser)
    parser.add_argument("-o", "--out", metavar="FILE", default="report.html", help="the file to write (%(default)s)")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--diff", action="store_true", help="two files: show what grew from the first to the second")
    parser.add_argument(
        "--steps",
        metavar=("N", "M"),
        nargs=2,
        help="look closely at the steps N to M: the timeline begins with them and is finer, and the map moves in them",
    )
    parser.add_argument(
        "--without-stacks", action="store_true", help="leave out stacks, whose file names may be private"
    )
    add_capacity(parser)
    add_policies(parser)
    add_events(parser)
    parser.add_argument("--json", action="store_true", help="print what the page shows as JSON; write no page")


def _run(arguments: argparse.Namespace) -> int:
    from memlake.analysis.chosen_policies import chosen_policies
    from memlake.html_report import ReportWishes
    from memlake.replaying.event_mode import EventMode

    EventMode.parse(arguments.events)  # a misspelt option is reported before a large file is read
    chosen = None if arguments.policies is None else chosen_policies(arguments.policies)
    out = Path(arguments.out)
    if not arguments.json:
        refuse_to_replace(arguments.out, arguments.force, "report.html")
    wishes = ReportWishes(
        arguments.capacity,
        arguments.reserve,
        arguments.limit,
        arguments.events,
        chosen,
        steps=_steps(arguments.steps),
        has_stacks=not arguments.without_stacks,
    )
    made = _of_sweep(arguments) or _make(arguments, wishes)
    for reason in made.unreadable:
        print(f"memlake: error: {visible(reason)}", file=sys.stderr)
    code = 2 if made.unreadable else 0
    if arguments.json:
        print_json({"traces": arguments.traces} | made.to_json())
        return code
    made.save(out)
    nbytes = out.stat().st_size
    print_text(f"Wrote {arguments.out}: {format_bytes(nbytes)}. Open it in a browser.")
    if nbytes > _LARGEST:
        print("memlake: the page is larger than 15 MiB; name fewer files for a smaller one", file=sys.stderr)
    return code


def _of_sweep(arguments: argparse.Namespace) -> SweepReport | None:
    """Returns the page of a sweep if the arguments name results of one; None if they name traces."""
    from memlake.sweeping.loading import is_sweep_file, load_sweep

    names: list[str] = arguments.traces
    found = [name for name in names if is_sweep_file(name)]
    if not found:
        return None
    if len(names) > 1:
        raise ConfigError(
            f"{found[0]!r} has the results of a sweep, and {len(names)} files were given; hint: name it alone"
        )
    for option, default in _FOR_TRACES.items():
        if getattr(arguments, option) != default:
            raise ConfigError(
                f"--{_OPTIONS.get(option, option)} is for traces, and {found[0]!r} has the results of a sweep, which "
                "are shown as they are; hint: leave it out, or give it to memlake sweep"
            )
    from memlake.html_report import report_of_sweep

    with Progress("working"):
        return report_of_sweep(load_sweep(found[0]), Path(found[0]).name)


def _make(arguments: argparse.Namespace, wishes: ReportWishes) -> Report:
    from memlake.html_report.reporting import report_of_diff, report_of_ranks, report_of_trace

    with Progress("working") as progress:
        if arguments.diff:
            if len(arguments.traces) != 2:
                raise ConfigError(
                    f"--diff compares two files, and {len(arguments.traces)} were given; hint: memlake report --diff "
                    "before.pickle after.pickle"
                )
            traces = [load_trace(argparse.Namespace(trace=name, device=arguments.device)) for name in arguments.traces]
            names = _names(arguments.traces)
            return report_of_diff(traces[0], traces[1], names, wishes, progress)
        job = job_of(arguments)
        if job is not None:
            return report_of_ranks(job, wishes, progress)
        return report_of_trace(load_trace(arguments), Path(arguments.trace).name, wishes, progress)


def _steps(texts: list[str] | None) -> tuple[int, int] | None:
    if texts is None:
        return None
    if not all(text.isascii() and text.isdigit() and len(text) <= 9 for text in texts) or int(texts[0]) > int(texts[1]):
        raise ConfigError(f"--steps needs two numbers, got {' '.join(texts)[:60]!r}; hint: --steps 3 5")
    return int(texts[0]), int(texts[1])


def _names(paths: list[str]) -> tuple[str, str]:
    """Returns the names of two files, with their folders if the names alone are equal."""
    first, second = (Path(path).name for path in paths)
    return (first, second) if first != second else (paths[0], paths[1])
