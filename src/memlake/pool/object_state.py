"""The state of a pool's Python object: what Python alone keeps of a pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlake.pool.pool import Pool
    from memlake.pool.recording import Recording

__all__ = ["FailureCallback", "ObjectState"]

FailureCallback = Callable[[int], object]
"""A pool calls it with the size of a request before it refuses the request. A true result means: try again."""


def _ignore(pool: Pool) -> None:
    """Stands for `on_high` where the pool has no high mark."""


@dataclass(slots=True, kw_only=True)
class ObjectState:
    """What the Python object of a pool keeps and the core does not know. It ends with the object.

    All that C functions can change is in the core, and a `Pool` asks for it each time.

    Attributes:
        fallback_reason: why the pool does not have the default policy, if it was made without a policy.
        decay: after how many seconds unneeded memory is released; None: never.
        on_failure: the functions that are called before a request is refused.
        high_mark: how many held bytes `on_high` is called for; None: it is not called.
        on_high: the function that is called with the pool.
        is_default: True for the default pool of a device.
        is_borrowed: True if the object was made for a pool that serves PyTorch. Such an object does not end the pool.
        recording: the recording that runs.
    """

    fallback_reason: str | None = None
    decay: float | None = None
    on_failure: tuple[FailureCallback, ...] = ()
    high_mark: int | None = None
    on_high: Callable[[Pool], object] = _ignore
    is_default: bool = False
    is_borrowed: bool = False
    recording: Recording | None = None
