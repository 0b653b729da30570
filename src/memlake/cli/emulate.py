"""``memlake emulate -- COMMAND``: runs a program on the emulated CUDA driver."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from memlake.cli.command import add_command
from memlake.emulator.config import EmulatorConfig
from memlake.emulator.hardware import HARDWARE, settings_of
from memlake.errors import ConfigError
from memlake.libraries import cuda_library_directory, emulator_library

if TYPE_CHECKING:
    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
Runs a program that talks to the CUDA driver API (libcuda.so.1) on emulated GPUs, without a GPU and without changing it.
The program gets LD_LIBRARY_PATH and MEMLAKE_EMULATOR set; its exit code is the exit code.

Programs on NVIDIA's own runtime library (libcudart), such as CuPy or JAX, refuse any driver but the real one.
What works: cuda-bindings' driver API, cuda.core's memory, streams and events, ctypes, C and C++ on the driver API.
"""

_EXAMPLE = """\
example:
  memlake emulate --devices 2 --memory 8GiB --report -- python test_my_allocator.py

exit code: the program's own, or 2 for bad input
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "emulate",
        _run,
        help="run a program on the emulated CUDA driver",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    defaults = EmulatorConfig()
    devices = parser.add_argument_group("devices")
    devices.add_argument(
        "--devices", metavar="N", help="how many (default: as many as sizes are given for each device, or 1)"
    )
    devices.add_argument(
        "--memory",
        metavar="SIZE",
        default=defaults.memory,
        help="the memory of all devices, or of each as 8GiB/16GiB (default: %(default)s)",
    )
    devices.add_argument(
        "--granularity",
        metavar="SIZE",
        default=defaults.granularity,
        help="the granule, of all or of each (default: %(default)s)",
    )
    devices.add_argument(
        "--recommended-granularity",
        metavar="SIZE",
        help="the granularity that the driver recommends (default: --granularity)",
    )
    devices.add_argument(
        "--peers",
        metavar="WHO",
        default=defaults.peers,
        help='the devices that can access memory of other devices: "all", "none", or rows of 0 and 1 such as 01/10 '
        "(default: %(default)s)",
    )
    devices.add_argument("--name", help="the name of the devices")
    devices.add_argument(
        "--hardware",
        metavar="NAME",
        help="a machine that lacks what some real ones lack: " + ", ".join(HARDWARE),
    )
    behaviour = parser.add_argument_group("behaviour")
    behaviour.add_argument(
        "--backing",
        default=defaults.backing,
        help='"host": real bytes; "none": bookkeeping only (default: %(default)s)',
    )
    behaviour.add_argument(
        "--profile", default=defaults.profile, help='"strict", or "nvidia": as observed (default: %(default)s)'
    )
    behaviour.add_argument(
        "--relax", metavar="RULE", action="append", default=[], help="relax one rule of the strict profile (repeatable)"
    )
    behaviour.add_argument(
        "--aliasing",
        metavar="LEVEL",
        help='"none": a handle is mapped once; "whole": also again, always whole; "prefix": also its first part alone '
        "(default: prefix)",
    )
    behaviour.add_argument(
        "--lacks",
        metavar="CAPABILITY",
        action="append",
        default=[],
        help="the devices do not have this, for instance vmm, rdma or export (repeatable)",
    )
    behaviour.add_argument(
        "--fabric",
        help='fabric handles: "none"; "create": accepted at cuMemCreate only; "works" (default: none)',
    )
    behaviour.add_argument(
        "--pool-segment",
        metavar="SIZE",
        default=defaults.pool_segment,
        help="the size of the segments of CUDA's memory pools (default: %(default)s)",
    )
    behaviour.add_argument("--driver-version", metavar="N", help="the version that the driver reports (default: 13000)")
    behaviour.add_argument("--poison", action="store_true", help="fill new memory with a pattern")
    behaviour.add_argument(
        "--kernels",
        default=defaults.kernels,
        help='"refuse" launches of kernels, or "skip": check and queue them, compute nothing (default: %(default)s)',
    )
    report = parser.add_argument_group("report")
    report.add_argument("--explain", action="store_true", help="print why a call is refused, at each refusal")
    report.add_argument("--report", action="store_true", help="print the ledger to stderr when the program ends")
    report.add_argument("--ledger", metavar="FILE", help="write the ledger to a file, as JSON, when the program ends")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")


def _run(arguments: argparse.Namespace) -> NoReturn:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ConfigError("no program to run; hint: write it behind --, for instance memlake emulate -- python test.py")
    program = shutil.which(command[0])
    if program is None:
        raise ConfigError(f"cannot run {command[0]!r}: {_why_no_program(command[0])}")
    settings = _settings(arguments)
    _check(settings)
    try:
        os.execve(program, command, os.environ | _environment(settings))
    except OSError as error:
        raise ConfigError(
            f"cannot run {program!r}: {error.strerror}; hint: is it a program that you may run?"
        ) from None


def _why_no_program(name: str) -> str:
    """Says why a name is no program that can be run, and what to do."""
    # Without a slash the name was looked up in the folders of PATH, and a file of this folder is not meant.
    if "/" in name and Path(name).is_dir():
        return "it is a folder; hint: name a program"
    if "/" in name and Path(name).exists():
        hint = f"chmod +x {shlex.quote(name)}, or name its interpreter"
        return f"the file exists, but you may not execute it; hint: {hint}"
    return "there is no such program; hint: install it, or name it with its folder"


def _sizes(text: str) -> str | list[str]:
    """Splits ``8GiB/16GiB`` into one size for each device."""
    return text.split("/") if "/" in text else text


def _settings(arguments: argparse.Namespace) -> str:
    version = arguments.driver_version
    given = {
        "aliasing": arguments.aliasing,
        "lacks": arguments.lacks or None,
        "fabric": arguments.fabric,
        "driver_version": _whole_number("--driver-version", version) if version else None,
    }
    chosen = dict(settings_of(arguments.hardware)) | {key: value for key, value in given.items() if value is not None}
    config = EmulatorConfig(
        devices=None if arguments.devices is None else _whole_number("--devices", arguments.devices),
        memory=_sizes(arguments.memory),
        backing=arguments.backing,
        peers=arguments.peers,
        granularity=_sizes(arguments.granularity),
        recommended_granularity=None
        if arguments.recommended_granularity is None
        else _sizes(arguments.recommended_granularity),
        profile=arguments.profile,
        relax=arguments.relax,
        pool_segment=arguments.pool_segment,
        poison=arguments.poison,
        kernels=arguments.kernels,
        name=arguments.name,
        **chosen,
    )
    text = config.to_text()
    if arguments.explain:
        text += ",explain=on"
    if arguments.report:
        text += ",report=exit"
    if arguments.ledger is not None:
        text += f",ledger={_ledger_file(arguments.ledger)}"
    return text


def _check(settings: str) -> None:
    """Lets the emulator check the settings before the program starts."""
    from memlake import _native

    # Settings that are already in the environment are replaced for the program; they must not be read here, either.
    os.environ.pop("MEMLAKE_EMULATOR", None)
    _native.Driver.load(emulator_library()).add_devices(settings)


def _environment(settings: str) -> dict[str, str]:
    def with_ours_first(variable: str) -> str:
        return os.pathsep.join([cuda_library_directory(), *filter(None, [os.environ.get(variable, "")])])

    # LIBRARY_PATH is for programs that the command compiles and links with -lcuda.
    paths = {variable: with_ours_first(variable) for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH")}
    return {"MEMLAKE_EMULATOR": settings, **paths}


def _whole_number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{option} must be a whole number, got {text!r}; hint: {option} 2") from None


def _ledger_file(name: str) -> str:
    path = Path(name).resolve()  # the program may change its directory
    if "," in str(path):
        raise ConfigError(f"the ledger's file name must not contain ',': {str(path)!r}; hint: choose another name")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"cannot write the ledger to {str(path)!r}: the folder does not exist or is not writable; "
            "hint: name a file in a folder that you may write to"
        )
    return str(path)
