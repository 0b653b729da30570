"""Loads the weights of a mixture of experts into a `torch.cuda.MemPool` and fuses them there, layer by layer.

What is freed in the live pool has to serve larger requests. Then it computes outside of the pool.
"""

import torch

LAYERS, EXPERTS, WIDTH, HIDDEN, PADDED = 24, 16, 2048, 1408, 1536


def empty(*shape: int) -> torch.Tensor:
    """A tensor of the pool that is in use."""
    return torch.empty(*shape, dtype=torch.bfloat16, device="cuda")


pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool), torch.inference_mode():
    loaded = [
        [(empty(HIDDEN, WIDTH), empty(HIDDEN, WIDTH), empty(WIDTH, HIDDEN)) for _ in range(EXPERTS)]
        for _ in range(LAYERS)
    ]
    fused = []
    while loaded:
        layer = loaded.pop()
        inner, outer = empty(EXPERTS, 2 * PADDED, WIDTH), empty(EXPERTS, WIDTH, PADDED)
        for number, (gate, up, down) in enumerate(layer):
            inner[number, :HIDDEN] = gate
            inner[number, PADDED : PADDED + HIDDEN] = up
            outer[number, :, :HIDDEN] = down
        fused.append((inner, outer))
        del layer, gate, up, down
with torch.inference_mode():
    for tokens in (512, 2048, 1024, 4096):
        state = empty(tokens, WIDTH)
        for inner, outer in fused:
            for number in range(EXPERTS):
                gate, up = (state @ inner[number].T).chunk(2, -1)
                state = state + (torch.nn.functional.silu(gate) * up) @ outer[number].T
