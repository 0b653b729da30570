"""The policies there are, by name. A new one joins with one entry in the list."""

from __future__ import annotations

import difflib

from memlake.errors import ConfigError
from memlake.policies.alloc_conf import parse_alloc_conf
from memlake.policies.driver_options import DriverOptions
from memlake.policies.lake_options import LakeOptions
from memlake.policies.options import DirectOptions, Options
from memlake.policies.stitch_options import StitchOptions
from memlake.policies.torch_options import CachingOptions, ExpandableOptions

__all__ = ["known_policies", "policy", "resolve_policy"]

_KNOWN: tuple[type[Options], ...] = (
    LakeOptions,
    CachingOptions,
    ExpandableOptions,
    StitchOptions,
    DirectOptions,
    DriverOptions,
)


def known_policies() -> dict[str, type[Options]]:
    """The class of options of every policy, by the policy's name, in the order of tables."""
    return {options.name: options for options in _KNOWN}


def policy(text: str) -> Options:
    """The policy that a string means.

    Args:
        text: a name (``"lake"``, ``"caching"``, ``"expandable"``, ``"stitch"``, ``"direct"``, ``"driver"``),
            or what ``PYTORCH_ALLOC_CONF`` would say, such as ``"expandable_segments:True,max_split_size_mb:128"``.

    Raises:
        ConfigError: if no policy has this name, or an option is unknown or cannot be used; it names those there are.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a policy is named by a string, got {text!r} of type {type(text).__name__}")
    known = known_policies()
    if text.strip() in known:
        return known[text.strip()]()
    if ":" in text:
        return parse_alloc_conf(text)
    nearest = difflib.get_close_matches(text.strip().lower(), known, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    raise ConfigError(
        f"no policy is named {shown}; {hint}known: {', '.join(known)}, "
        'or a PyTorch configuration such as "max_split_size_mb:128"'
    )


def resolve_policy(given: str | Options) -> Options:
    """The options themselves, or those of the policy that a string means; see `policy`.

    Raises:
        ConfigError: if it is neither, or the string means no policy.
    """
    if isinstance(given, Options):
        return given
    if isinstance(given, type) and issubclass(given, Options):
        raise ConfigError(f"policy must be options, not their class; write {given.__name__}()")
    if not isinstance(given, str):
        names = ", ".join(options.__name__ for options in _KNOWN)
        raise ConfigError(f"policy must be a string or one of {names}, got {given!r} of type {type(given).__name__}")
    return policy(given)
