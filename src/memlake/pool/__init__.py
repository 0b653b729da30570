"""Pools: memory of devices, handed out in buffers under a policy.

`pool` and `buffer` are what users make and get; the other modules each have one noun of them. How a request is met is
decided in the core; Python checks arguments, names the errors and keeps the options.
"""

from memlake.pool.buffer import Buffer
from memlake.pool.current_pools import allocate, current_pool, default_pool, set_current_pool, use_pool
from memlake.pool.pool import Pool

__all__ = ["Buffer", "Pool", "allocate", "current_pool", "default_pool", "set_current_pool", "use_pool"]
