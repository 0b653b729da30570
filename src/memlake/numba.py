"""memlake in Numba: arrays of ``numba.cuda`` get the memory of memlake's pools.

::

    import memlake.numba
    memlake.numba.install()          # before the first array

or, without a change of the program, ``NUMBA_CUDA_MEMORY_MANAGER=memlake.numba python program.py``.
"""

from memlake.integrations.numba import MemlakeMemoryManager, install

__all__ = ["MemlakeMemoryManager", "install"]

_numba_memory_manager = MemlakeMemoryManager
"""The name that Numba looks for if NUMBA_CUDA_MEMORY_MANAGER names this module."""
