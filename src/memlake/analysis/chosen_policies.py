"""The policies that a comparison is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies import Options, known_policies, resolve_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["chosen_policies"]


def chosen_policies(policies: Iterable[str | Options] | str | Options | None) -> tuple[Options, ...]:
    """For None all policies with their defaults whose figures are those of the real thing; else those given, each once,
    in their order.

    Raises:
        ConfigError: if one of them is no policy, or there is none.
    """
    if policies is None:
        return tuple(options() for options in known_policies().values() if not options.is_approximate)
    given = [policies] if isinstance(policies, str | Options) else list(policies)
    if not given:
        raise ConfigError(f"policies is empty; leave it out for all of them: {', '.join(known_policies())}")
    return tuple(dict.fromkeys(resolve_policy(policy) for policy in given))
