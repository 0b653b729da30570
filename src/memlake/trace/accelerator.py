"""The accelerator of a snapshot. torch_npu writes the same files as PyTorch, but its allocator places blocks otherwise.

torch_npu adds 32 bytes to every request before it rounds to 512 bytes. PyTorch does not, so a block whose request is a
multiple of 512 bytes, or a little below one, shows which of the two allocated it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.trace.live_bytes import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from memlake.trace.recorded import RecordedSegment

__all__ = ["accelerator_of"]

_PADDING = 32
_LEAST_BLOCKS = 3
"""So many blocks must have the padding, and none may lack it."""


def accelerator_of(segments: Iterable[RecordedSegment], settings: Mapping[str, object]) -> str:
    """Returns ``"npu"`` for a snapshot of torch_npu, else ``"cuda"``.

    Args:
        segments: the segments of the snapshot. Only blocks of small segments are compared: others may have slack.
        settings: the allocator's settings in the snapshot.
    """
    if any("NPU" in name for name in settings):
        return "npu"
    padded = plain = 0
    for segment in segments:
        if segment.kind != "small":
            continue
        for block in segment.blocks:
            if block.state != "live" or block.requested == 0:
                continue
            without, with_padding = _rounded(block.requested), _rounded(block.requested + _PADDING)
            if without != with_padding:
                padded += block.nbytes == with_padding
                plain += block.nbytes == without
    return "npu" if padded >= _LEAST_BLOCKS and plain == 0 else "cuda"


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ROUNDING) * ROUNDING
