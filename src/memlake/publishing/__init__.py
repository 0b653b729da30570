"""Publishing: a process lets other processes of the same user read the figures of its pools, for ``memlake top``.

A `Publisher` answers on a Unix socket in a folder that only its user can open. A `Reader` finds the sockets and asks.
What the figures are is not known here: the package `pool` gives them, and `Published` is what a reader gets.
"""

from memlake.publishing.folder import PublishFolder
from memlake.publishing.publisher import Publisher
from memlake.publishing.reader import Published, PublishedPool, PublishedStream, Reader
from memlake.publishing.view import SORTS, PoolLine, PoolView

__all__ = [
    "SORTS",
    "PoolLine",
    "PoolView",
    "PublishFolder",
    "Published",
    "PublishedPool",
    "PublishedStream",
    "Publisher",
    "Reader",
]
