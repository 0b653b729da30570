"""The known policies by name, and the options for a policy's text. The core has the list and parses the text."""

from __future__ import annotations

import re
from dataclasses import field, make_dataclass
from functools import cache
from typing import Any

from memlake.errors import ConfigError
from memlake.policies.driver_options import DriverOptions
from memlake.policies.lake_options import LakeOptions
from memlake.policies.options import DirectOptions, Options, value_from_text
from memlake.policies.registry import Entry, entries
from memlake.policies.stitch_options import StitchOptions
from memlake.policies.torch_options import CachingOptions, ExpandableOptions

__all__ = ["known_policies", "policy", "resolve_policy"]

_CLASSES: dict[str, type[Options]] = {
    options.name: options
    for options in (LakeOptions, CachingOptions, ExpandableOptions, StitchOptions, DirectOptions, DriverOptions)
}

# The blanks that the core removes. Python's str.split() would also remove those of Unicode, which the core refuses.
_WITHOUT_BLANKS = str.maketrans("", "", " \t\r\n\v\f")


# What people copy from a shell or from a message of PyTorch.
_ASSIGNMENT = re.compile(r"\A(?:export[ \t]+)?PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF[ \t]*=[ \t]*")


@cache
def known_policies() -> dict[str, type[Options]]:
    """Returns each policy's options class by the policy's name, in the order of tables; the default comes first."""
    return {name: _CLASSES.get(name) or _class_for(entry) for name, entry in entries().items()}


def policy(text: str) -> Options:
    """Returns the options of the policy that a string names.

    Args:
        text: a name, such as ``"lake"`` or ``"stitch"``; a name with options, such as
            ``"stitch,frag_limit:64MiB"``; or a value of ``PYTORCH_ALLOC_CONF``, such as
            ``"expandable_segments:True,max_split_size_mb:128"``. The assignment itself, ``"PYTORCH_ALLOC_CONF=..."``,
            may stand before it, as in a shell. ``MEMLAKE_CONF`` takes the same text and also the
            keys of a pool.

    Raises:
        ConfigError: if no policy has this name, or an option is unknown or invalid. The message lists the known ones.
    """
    from memlake import _native

    if not isinstance(text, str):
        raise ConfigError(f"a policy is named by a string, got {text!r} of type {type(text).__name__}")
    known = known_policies()
    stripped = _ASSIGNMENT.sub("", text.strip(" \t\r\n\v\f")).translate(_WITHOUT_BLANKS)
    if len(stripped) > 1 and stripped[0] in "\"'" and stripped[-1] == stripped[0]:
        stripped = stripped[1:-1]
    if not stripped:
        raise ConfigError(f"no policy is named {text[:60]!r}; hint: known are {', '.join(known)}")
    name, settings = _native.parse_policy(stripped)
    return known[name]._from_settings(settings)


def resolve_policy(given: str | Options) -> Options:
    """Returns given options unchanged, or the options of the policy that a string names; see `policy`.

    Raises:
        ConfigError: if the argument is neither options nor a string, or the string names no policy.
    """
    if isinstance(given, Options):
        return given
    if isinstance(given, type) and issubclass(given, Options):
        raise ConfigError(f"policy must be options, not their class; write {given.__name__}()")
    if not isinstance(given, str):
        names = ", ".join(options.__name__ for options in known_policies().values())
        raise ConfigError(f"policy must be a string or one of {names}, got {given!r} of type {type(given).__name__}")
    return policy(given)


def _class_for(entry: Entry) -> type[Options]:
    """Makes the options class of a policy that has no handwritten one. The core checks its values."""

    def check(self: Options) -> None:
        from memlake import _native

        _, settings = _native.parse_policy(self.configuration)
        for option, its_field in self._options():
            if option.key in settings:
                object.__setattr__(self, its_field.name, value_from_text(option, settings[option.key]))

    defaults = _settings_of(entry)
    return make_dataclass(
        f"{entry.name.title().replace('_', '')}Options",
        [(option.key, Any, field(default=defaults.get(option.key))) for option in entry.options],
        bases=(Options,),
        namespace={
            "__doc__": f"The policy {entry.name}: {entry.summary}.",
            "__post_init__": check,
            "__reduce__": lambda self: (policy, (self.configuration,)),  # pickle finds no such class in a module
            "name": entry.name,
        },
        frozen=True,
        kw_only=True,
    )


def _settings_of(entry: Entry) -> dict[str, Any]:
    """Returns the defaults that can be parsed. A default that is only a description is left out."""
    from memlake import _native

    defaults = {}
    for option in entry.options:
        try:
            _, settings = _native.parse_policy(f"{entry.name},{option.key}:{option.default}")
        except ConfigError:
            continue
        defaults[option.key] = value_from_text(option, settings[option.key])
    return defaults
