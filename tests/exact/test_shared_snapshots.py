"""Snapshots of real GPUs, which are not part of the project; skipped where they are not at hand.

Every address, every segment and every block at the end must be what the GPU's PyTorch did.
"""

import pytest

from memlake import Trace
from memlake.trace import verify

# File: complete from the first allocation on, allocations, segments that came or went, blocks at the end.
SNAPSHOTS = {
    "niuhx_fwd_100": (True, 785, 31, 64),
    "niuhx_fwdbwd_100": (True, 3853, 65, 213),
    "niuhx_fwdbwd_200_mixed": (True, 4404, 88, 229),
    "silmont_mem_snapshot": (True, 36, 9, 20),
    "bcrafton_memory_snapshot": (False, 2162, 0, 550),
    "silmont_memory_forward_bf16_128": (False, 937, 0, 178),
    "silmont_memory_forward_fp32_128": (False, 681, 0, 164),
    "wedson_medium_128_inference": (False, 1280, 0, 230),
    "wedson_medium_256_training": (False, 6624, 0, 1023),
    "wedson_medium_512_training": (False, 7591, 1, 1041),
    "wedson_medium_1024_training": (False, 7591, 0, 1031),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_replay_does_what_the_gpu_did(shared, name):
    verification = verify(Trace.load(shared / "snapshots" / f"{name}.pickle"))
    assert verification.differences == ()
    compared = (verification.num_allocations, verification.num_segment_events, verification.num_blocks)
    assert (verification.is_complete, *compared) == SNAPSHOTS[name]
    # All of them are older than torch 2.13, which prefers the older segment.
    assert verification.tie_break == "address"
