"""``TRACE`` on the command line: a file, or the name of an example; for some commands also the files of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memlake.cli.output import Progress
from memlake.errors import ConfigError, TraceError
from memlake.units import format_bytes
from memlake.wording import shorten_end

if TYPE_CHECKING:
    import argparse

    from memlake.jobs import Ranks
    from memlake.trace import Trace

__all__ = ["add_trace", "add_traces", "device_of", "job_of", "load_trace"]


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Adds the argument, and the option for the device of a snapshot."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="a PyTorch memory snapshot, an RMM log or a trace of memlake; or the name of an example",
    )
    _add_device(parser)


def add_traces(parser: argparse.ArgumentParser) -> None:
    """Adds the argument for one trace or the files of a job, and the option for the device of a snapshot."""
    parser.add_argument(
        "traces",
        metavar="TRACE",
        nargs="+",
        help="a PyTorch memory snapshot, an RMM log or a trace of memlake, or the name of an example; for a job of "
        "several ranks a folder, a quoted pattern such as 'run/rank*.pickle', or several files",
    )
    _add_device(parser)


def job_of(arguments: argparse.Namespace) -> Ranks | None:
    """Returns the files of a job if the arguments name a folder, a pattern or several files; None for one trace.

    Raises:
        ConfigError: if a folder or a pattern has no snapshots, or a name cannot be used.
        TraceError: if there is no such file, or a folder cannot be read.
    """
    from memlake.jobs.files import has_wildcard
    from memlake.jobs.rank_files import ranks
    from memlake.trace import example_traces

    names: list[str] = arguments.traces
    arguments.trace = names[0]
    if len(names) == 1 and not _is_folder(names[0]):
        is_pattern = has_wildcard(names[0]) and not _is_there(names[0]) and "\0" not in names[0]
        if not is_pattern or names[0] in example_traces():
            return None
    return ranks(names, device=device_of(arguments))


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="N", help="which device of a snapshot (default: the one with most events)")


def load_trace(arguments: argparse.Namespace) -> Trace:
    """Loads the trace that the arguments name.

    Raises:
        TraceError: if the file is not a trace.
        ConfigError: if there is neither a file nor an example with this name.
    """
    from memlake.trace import Trace, example_traces, load_example

    name: str = arguments.trace
    device = device_of(arguments)
    if not name:
        raise ConfigError("the trace's name is empty; hint: give a file, or the name of an example")
    is_there = _is_there(name)
    examples = example_traces()
    if not is_there and name in examples:
        if device is not None:
            raise ConfigError(f"{name!r} is an example, which has no devices to choose from; hint: leave --device out")
        return load_example(name)
    if not is_there and "\0" in name:
        raise ConfigError(
            "the trace's name has a NUL character, which no file name has; hint: give a file, or the name of an example"
        )
    if not is_there:
        shown = shorten_end(name, 80)
        raise ConfigError(
            f"there is no file {shown!r}, and no such example; hint: give a file, or an example: {', '.join(examples)}"
        )
    try:
        with Progress("reading", format_bytes) as progress:
            return Trace.load(name, device=device, progress=progress)
    except OSError as error:
        raise TraceError(
            f"cannot read {name!r}: {error.strerror or error}; hint: give a file that you may read"
        ) from None


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _is_folder(name: str) -> bool:
    try:
        return name != "" and Path(name).is_dir()
    except (OSError, ValueError):
        return False


def device_of(arguments: argparse.Namespace) -> int | None:
    """Returns the number of the device that the arguments name; None: the one with most events.

    Raises:
        ConfigError: if it is no number.
    """
    text: str | None = arguments.device
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ConfigError(f"--device must be a device's number, got {text[:60]!r}; hint: --device 0")
    return int(text)
