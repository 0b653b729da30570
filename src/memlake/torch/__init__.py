"""memlake as PyTorch's CUDA allocator.

::

    import memlake.torch

    memlake.torch.install()      # from here on, tensors get memlake's memory

Nothing else changes: statistics, snapshots, out-of-memory errors, graphs, profilers and memory pools work as before.
docs/guides/pytorch.md says more. PyTorch is imported when a function is called, not when this module is imported.
"""

from memlake.torch.installing import Installation, install, installation, uninstall, using
from memlake.torch.pools import pool
from memlake.torch.region import mem_pool
from memlake.torch.report import TorchReport, report

__all__ = [
    "Installation",
    "TorchReport",
    "install",
    "installation",
    "mem_pool",
    "pool",
    "report",
    "uninstall",
    "using",
]
