"""Refusals: a pool asks its `on_failure` functions before it raises OutOfMemory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlake.errors import OutOfMemory
from memlake.logs import logger
from memlake.pool.shortage import Shortage

if TYPE_CHECKING:
    from collections.abc import Callable

    from memlake.pool.pool import Pool

__all__ = ["until_there_is_memory"]

_log = logger("pool")

# A retry makes sense if a function of on_failure changed one of these figures. The numbers limit the retries.
_WHAT_A_CALLBACK_CHANGES = ("limit", "held", "live", "pending", "free", "device_free")
_MOST_IN_VAIN = 2
_MOST_TRIES = 100


def until_there_is_memory(pool: Pool, size: int, attempt: Callable[[], Any]) -> Any:
    """Calls `attempt` until it succeeds or `on_failure` asks for no retry. A dict as result means: no memory.

    Raises:
        OutOfMemory: if there is no memory after all.
    """
    answer = attempt()
    tries = in_vain = 0
    while isinstance(answer, dict):
        refusal = answer
        # A function that always asks for a retry must not block the caller forever.
        may_ask = tries < _MOST_TRIES and in_vain < _MOST_IN_VAIN
        if not may_ask or not any(function(size) for function in pool.on_failure):
            shortage = Shortage.of(refusal)
            _log.info("%r: %s", pool, shortage.text)
            raise OutOfMemory(shortage.text, shortage)
        tries += 1
        answer = attempt()
        has_helped = isinstance(answer, dict) and any(answer[key] != refusal[key] for key in _WHAT_A_CALLBACK_CHANGES)
        in_vain = 0 if has_helped else in_vain + 1
    return answer
