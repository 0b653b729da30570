"""Sharing memory between processes: one process exports a buffer, another one opens it.

::

    # one process
    buffer = pool.allocate("1GiB", shareable=True)
    with buffer.export() as share:
        share.send(socket)                     # a connected Unix socket; or give it to multiprocessing

    # another one
    with sharing.receive(socket) as share:
        shared = share.open()                  # the same bytes

See docs/guides/share_between_processes.md.
"""

from memlake.sharing.share import Share, receive
from memlake.sharing.shared_buffer import SharedBuffer

__all__ = ["Share", "SharedBuffer", "receive"]
