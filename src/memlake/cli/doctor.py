"""``memlake doctor``: does memlake work here, what does it find, what is missing?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import Progress, print_json
from memlake.cli.replay_arguments import add_json
from memlake.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands
    from memlake.hardware import Differences, HardwareReport, Health

__all__ = ["add_to"]

_DESCRIPTION = """\
Looks at this machine: memlake's own libraries, the CUDA driver, its devices and their features, installed frameworks
(none is imported), limits of the system that matter. Really tries the emulator.

With --measure it times the calls of the driver and writes a report; with --compare it shows how such a report differs
from what the emulator and the cost model assume.
"""

_EXAMPLE = """\
examples:
  memlake doctor
  memlake doctor --measure gpu.json                   # device 0: its features, and what its driver's calls cost
  memlake doctor --compare gpu.json                   # how that differs from what memlake assumes
  memlake replay trace.npz --costs gpu.json           # driver time by the measured costs

exit code: 0 if memlake works here (with or without a GPU), 1 if it does not;
with --compare: 0 if nothing differs, 1 if something does
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "doctor",
        _run,
        help="does memlake work here, and what is missing?",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compare", metavar="FILE", help="a report of `make test-gpu` or of --measure to compare")
    what.add_argument("--measure", metavar="FILE", help="measure a device and write the report to this file")
    parser.add_argument("--device", metavar="N", default="0", help="the device to measure (default: %(default)s)")
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.compare is not None:
        from memlake.hardware import HardwareReport, compare_report

        differences = compare_report(HardwareReport.load(arguments.compare))
        _show(differences, arguments)
        return 1 if differences.found else 0
    if arguments.measure is not None:
        return _measure(arguments)
    from memlake.hardware import examine

    health = examine()
    _show(health, arguments)
    return 0 if health.is_good else 1


def _show(result: Differences | HardwareReport | Health, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(result.to_json())
    else:
        result.print()


def _measure(arguments: argparse.Namespace) -> int:
    from memlake.device import devices
    from memlake.hardware import measure

    found = {str(device.ordinal): device for device in devices()}
    if arguments.device not in found:
        known = ", ".join(found) or "none: there is no GPU here"
        raise ConfigError(f"there is no device {arguments.device[:20]!r}; hint: the devices are {known}")
    with Progress("measuring"):
        report = measure(found[arguments.device])
    try:
        report.save(arguments.measure)
    except OSError as error:
        raise ConfigError(
            f"the report cannot be written: {error}; hint: name a file in a folder that you may write to"
        ) from None
    _show(report, arguments)
    return 0
