"""The choice of policies for a comparison or a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies import Options, known_policies, resolve_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["chosen_policies"]


def chosen_policies(policies: Iterable[str | Options] | str | Options | None) -> tuple[Options, ...]:
    """Returns the given policies in order, each once. For None: all policies that are not approximate, with defaults.

    Raises:
        ConfigError: if an element is not a policy, or the list is empty.
    """
    if policies is None:
        every = [options() for options in known_policies().values()]
        return tuple(options for options in every if not options.capabilities.approximate)
    given = [policies] if isinstance(policies, str | Options) else list(policies)
    if not given:
        raise ConfigError(f"policies is empty; leave it out for all of them: {', '.join(known_policies())}")
    return tuple(dict.fromkeys(resolve_policy(policy) for policy in given))
