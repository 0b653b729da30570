"""``memlake replay TRACE``: one policy, one device, all figures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memlake.cli.output import Progress, print_json, print_table, print_text
from memlake.cli.replay_arguments import WHAT_A_POLICY_IS, add_capacity, add_events, add_json
from memlake.cli.trace_argument import add_trace, load_trace
from memlake.errors import ConfigError
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.replaying import ReplayResult, Timeline

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_to"]

_DESCRIPTION = """\
Replays a trace under one policy, on an emulated device, without a GPU, and prints all figures.
"""

_EXAMPLE = """\
examples:
  memlake replay snapshot.pickle --policy expandable --capacity 80GiB
  memlake replay train_moe --policy max_split_size_mb:128 --capacity 60GiB --timeline 20

exit code: 0 if it fits, 1 if it runs out of memory, 2 for bad input
"""

_BAR = 40


def add_to(commands: _Commands) -> None:
    """Adds the command to the command line."""
    parser = commands.add_parser(
        "replay",
        help="run a trace under one policy",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trace(parser)
    add_capacity(parser)
    parser.add_argument(
        "--policy",
        metavar="NAME",
        default="caching",
        help=f"{WHAT_A_POLICY_IS} (default: %(default)s)",
    )
    add_events(parser)
    parser.add_argument("--go-on", action="store_true", help="leave a request that finds no memory out and go on")
    parser.add_argument("--timeline", metavar="N", default="0", help="also show what was held, in N samples")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.replaying import replay

    samples = _samples(arguments.timeline)
    trace = load_trace(arguments)
    with Progress("replaying"):
        result = replay(
            trace,
            arguments.policy,
            arguments.capacity,
            events=arguments.events,
            limit=arguments.limit,
            go_on=arguments.go_on,
            timeline=samples,
        )
    if arguments.json:
        print_json({"trace": arguments.trace} | result.to_json())
    else:
        _print_result(result, len(trace))
    return 0 if result.fits else 1


def _samples(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise ConfigError(f"--timeline must be a whole number of samples, at most 7 digits, got {text[:60]!r}")
    return int(text)


def _print_result(result: ReplayResult, num_rows: int) -> None:
    used = result.utilization
    modelled = result.modelled_driver_ms
    figures = [
        ("policy", result.label),
        ("outcome", "fits" if result.fits else "runs out of memory"),
        ("rows replayed", f"{result.rows} of {num_rows}"),
        ("device", format_bytes(result.capacity)),
        ("limit", "none" if result.limit is None else format_bytes(result.limit)),
        ("live peak", format_bytes(result.peak_live)),
        ("requested peak", format_bytes(result.peak_requested)),
        ("allocated peak", format_bytes(result.peak_allocated)),
        ("held peak", format_bytes(result.peak_held)),
        ("live peak / held peak", "-" if used is None else f"{used:.4f}"),
        ("requests without memory", str(result.num_ooms)),
        ("retries", str(result.num_alloc_retries)),
        ("waits in the host", str(result.host_waits)),
        ("driver time on an A100", "-" if modelled is None else f"{modelled:.1f} ms"),
        ("CPU per row", f"{result.ns_per_event:.0f} ns"),
        *((call, f"{count} x") for call, count in result.driver_calls.items()),
    ]
    print_table(("figure", "value"), figures, left=2)
    print()
    if result.timeline is not None:
        _print_timeline(result.timeline, result.capacity)
        print()
    print_text(result.sentence)


def _print_timeline(timeline: Timeline, capacity: int) -> None:
    rows = []
    for row, allocated, held in zip(
        timeline.rows.tolist(), timeline.allocated.tolist(), timeline.held.tolist(), strict=True
    ):
        used = _BAR * allocated // capacity
        cached = _BAR * held // capacity - used
        bar = "#" * used + "-" * cached
        rows.append((f"{bar:<{_BAR}}|", str(row), format_bytes(allocated), format_bytes(held)))
    print_table(("# allocated, - held and free, | the device's end", "row", "allocated", "held"), rows, left=1)
