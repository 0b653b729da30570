"""The choice of policies for a comparison or a fit."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies import CachingOptions, ExpandableOptions, Options, TorchOptions, known_policies, resolve_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memlake.trace import Trace

__all__ = ["chosen_policies"]


def chosen_policies(
    policies: Iterable[str | Options] | str | Options | None, trace: Trace | None = None
) -> tuple[Options, ...]:
    """Returns the given policies in order, each once. For None: all policies that are not approximate.

    If the trace says what the job ran under, that policy comes first, and both of PyTorch's allocators get the job's
    settings. The other policies have their defaults.

    Raises:
        ConfigError: if an element is not a policy, or the list is empty.
    """
    if policies is None:
        every = [options() for options in known_policies().values()]
        usual = [options for options in every if not options.capabilities.approximate]
        own = None if trace is None else trace.settings.policy
        return tuple(usual) if own is None else (own, *_with_settings_of(own, usual))
    given = [policies] if isinstance(policies, str | Options) else list(policies)
    if not given:
        raise ConfigError(f"policies is empty; hint: leave it out for all of them: {', '.join(known_policies())}")
    return tuple(dict.fromkeys(resolve_policy(policy) for policy in given))


def _with_settings_of(own: TorchOptions, usual: list[Options]) -> list[Options]:
    settings = {field.name: getattr(own, field.name) for field in fields(own)}
    classes = {options.name: options for options in (CachingOptions, ExpandableOptions)}
    return [
        classes[options.name](**settings) if options.name in classes else options
        for options in usual
        if options.name != own.name
    ]
