"""memlake in NVIDIA's cuda.core: `MemlakeResource` is a memory resource whose buffers come from a memlake pool."""

from memlake.integrations.cuda_core import MemlakeResource

__all__ = ["MemlakeResource"]
