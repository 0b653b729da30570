"""A trace of a million rows: a shipped example again and again, each time with all of its memory freed at the end."""

from __future__ import annotations

import numpy as np

from memlake import Trace
from memlake.trace import Op, load_example
from memlake.trace.columns import is_free


def long_trace(num_rows: int = 1_000_000, example: str = "train_opt-13b_lora_offload") -> Trace:
    """Returns a trace of at least `num_rows` rows, with steps that are numbered on."""
    once = load_example(example)
    frees = is_free(once.op)
    live = np.setdiff1d(np.arange(once.num_allocations), once.id[frees])
    op = np.concatenate([once.op, np.full(len(live), Op.FREE.value, np.uint8)])
    ids = np.concatenate([once.id.astype(np.int64), live])
    nbytes = np.concatenate([once.bytes, np.zeros(len(live), np.uint64)])
    stream = np.concatenate([once.stream, np.zeros(len(live), np.uint16)])
    tag = np.concatenate([once.tag, np.zeros(len(live), np.uint32)])
    times = -(-num_rows // len(op))
    steps = op == Op.STEP.value
    shift = np.where(steps, np.count_nonzero(steps), once.num_allocations)
    every = np.concatenate([ids + shift * turn for turn in range(times)])
    columns = (np.tile(column, times) for column in (op, nbytes, stream, tag))
    ops, sizes, streams, tags = columns
    return Trace(ops, every, sizes, streams, tag=tags, tags=once.tags)
