"""The overview of a file: what it records, what PyTorch held, why it ran out of memory, what was live at the peak."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.analysis.held_peak import held_peak_of
from memlake.analysis.held_split import split_held
from memlake.analysis.reproducing import reproduce
from memlake.analysis.shortage_verdict import judge_shortage
from memlake.analysis.step_peaks import step_peaks_of
from memlake.errors import ConfigError
from memlake.printable import Printable
from memlake.replaying.capacity import whole_device
from memlake.replaying.gpus import CONTEXT_RESERVE
from memlake.replaying.running import to_trace
from memlake.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from memlake.analysis.held_split import HeldSplit
    from memlake.analysis.reproducing import Reproduction
    from memlake.analysis.shortage_verdict import ShortageVerdict
    from memlake.analysis.step_peaks import StepPeak
    from memlake.trace import History, JobSettings, Peak, Trace
    from memlake.units import Size

__all__ = ["Overview", "overview", "told_device"]


@dataclass(frozen=True, kw_only=True)
class Overview(Printable, table="overview"):
    """What a file tells about a job, without a replay. Sizes are bytes. `print` shows it as ``memlake show`` does.

    Attributes:
        source: what wrote the file, such as ``"PyTorch snapshot"``; empty if the file does not say.
        num_rows: the number of rows of the trace.
        num_allocations: the number of allocations.
        num_streams: the number of streams in the rows; a stream that the file does not name is not counted.
        device: the number of the device; None if the file does not name one.
        held_on_devices: what PyTorch held on each device at the end, by its number as text.
        private_pools: what each private pool held at the end, by its name.
        history: how much of the job's life the file records.
        settings: what is known of the job's own allocator.
        at_end: the memory that PyTorch held at the moment of the snapshot; None if the file does not have it.
        held_peak: the most that PyTorch held in the recorded part; None if the file does not tell.
        peak: what was live at the peak; for a file without a history, at the moment of the snapshot.
        shortage: why PyTorch had no memory for its last refused request; None if it refused none.
        num_shortages: how many requests PyTorch refused; the last 100 are counted.
        reproduction: how well a replay of what the job ran under reproduces the file; None if it is no snapshot.
        steps: the steps of the job; empty if they are not known.
        steps_known_by: how the steps are known, or why they are not, without a full stop.
        notes: what a reader must know before trusting the figures.
        capacity: the memory of the whole device, if the caller named it; else None.
        origin: where the capacity comes from, as a sentence; empty if the caller gave it as a size.
    """

    source: str
    num_rows: int
    num_allocations: int
    num_streams: int
    device: int | None
    held_on_devices: Mapping[str, int]
    private_pools: Mapping[str, int]
    history: History
    settings: JobSettings
    at_end: HeldSplit | None
    held_peak: int | None
    peak: Peak
    shortage: ShortageVerdict | None
    num_shortages: int
    reproduction: Reproduction | None
    steps: tuple[StepPeak, ...] = field(default=(), repr=False)
    steps_known_by: str = ""
    notes: tuple[str, ...] = ()
    capacity: int | None = None
    origin: str = ""

    def __repr__(self) -> str:
        what = f"{self.num_rows} rows, history {self.history.kind}, peak {format_bytes(self.peak.nbytes)} live"
        verdict = "" if self.shortage is None else f", out of memory: {self.shortage.kind}"
        return f"<memlake.Overview: {what}{verdict}>"

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object that ``memlake show --json`` prints, as a dict."""
        policy = self.settings.policy
        return {
            "source": self.source,
            "rows": self.num_rows,
            "allocations": self.num_allocations,
            "streams": self.num_streams,
            "device": self.device,
            "capacity": self.capacity,
            "capacity_origin": self.origin,
            "held_on_devices": dict(self.held_on_devices),
            "private_pools": dict(self.private_pools),
            "history": self.history.kind,
            "history_details": self.history.to_json(),
            "torch": self.settings.torch.to_json(),
            "accelerator": None if policy is None else self.settings.accelerator,
            "policy": None if policy is None else policy.name,
            "options": None if policy is None else policy.to_text(),
            "at_end": None if self.at_end is None else self.at_end.to_json(),
            "held_peak": self.held_peak,
            "oom": None if self.shortage is None else self.shortage.to_json(),
            "num_ooms": self.num_shortages,
            "verification": None if self.reproduction is None else self.reproduction.to_json(),
            "peak": self.peak.to_json(),
            "steps": [step.to_json() for step in self.steps],
            "steps_known_by": self.steps_known_by,
            "notes": list(self.notes),
        }


def overview(
    trace: Trace | str | os.PathLike[str],
    *,
    capacity: Size | None = None,
    reserve: Size | None = None,
    steps: bool = True,
) -> Overview:
    """Describes what a file tells about a job.

    Args:
        trace: the trace, or the path of its file.
        capacity: the memory of the whole device, as a size or as the name of a GPU such as ``"a100-80gb"``. With it,
            the verdict of a shortage can tell what was outside PyTorch.
        reserve: what the CUDA context takes of it, which is not counted as taken by others. None: 512 MiB.
        steps: whether to look for steps, which takes a second for a million rows.

    Raises:
        ConfigError: if an argument cannot be used, or there is a reserve without a capacity.
        TraceError: if the file is not a trace. If there is no such file, it is also a FileNotFoundError.
    """
    device_size, origin, kept = told_device(capacity, reserve)
    trace = to_trace(trace)
    metadata = trace.metadata
    found, known_by = step_peaks_of(trace) if steps else ((), "they were not asked for")
    source = metadata.get("source")
    device = metadata.get("device")
    return Overview(
        source=source[:100] if isinstance(source, str) else "",
        num_rows=len(trace),
        num_allocations=trace.num_allocations,
        num_streams=trace.num_streams - (metadata.get("unknown_stream") is not None),
        device=device if type(device) is int else None,
        held_on_devices=_sizes(metadata.get("held_on_devices")),
        private_pools=_sizes(metadata.get("private_pools")),
        history=trace.history,
        settings=trace.settings,
        at_end=split_held(trace),
        held_peak=held_peak_of(trace),
        peak=trace.peak(),
        shortage=judge_shortage(trace, device_size, kept),
        num_shortages=len(trace.shortages),
        reproduction=reproduce(trace),
        steps=found,
        steps_known_by=known_by,
        notes=trace.caveats,
        capacity=device_size,
        origin=origin,
    )


def told_device(capacity: Size | None, reserve: Size | None) -> tuple[int | None, str, int]:
    """Returns the memory of the whole device, if it is given, where the number comes from, and the context's part.

    Raises:
        ConfigError: if an argument cannot be used, or there is a reserve without a capacity.
    """
    if reserve is not None and capacity is None:
        raise ConfigError("reserve is a part of the memory of the device; hint: give that, too, with capacity")
    kept = CONTEXT_RESERVE if reserve is None else parse_bytes(reserve, what="reserve", round_down=True)
    return (None, "", kept) if capacity is None else (*whole_device(capacity), kept)


def _sizes(given: object) -> dict[str, int]:
    """Returns the whole numbers of a dict from an untrusted file."""
    if not isinstance(given, dict):
        return {}
    return {str(name)[:100]: nbytes for name, nbytes in given.items() if type(nbytes) is int and nbytes >= 0}
