"""Pools: a `Pool` allocates buffers from the memory of its devices, under a policy.

The core decides how to serve a request. The modules here check arguments, raise errors and keep options; each module
covers one part of a pool.
"""

from memlake.pool.buffer import Buffer
from memlake.pool.current_pools import allocate, current_pool, default_pool, set_current_pool, use_pool
from memlake.pool.pool import Pool

__all__ = ["Buffer", "Pool", "allocate", "current_pool", "default_pool", "set_current_pool", "use_pool"]
