"""Reads PyTorch's configuration string, the value of ``PYTORCH_ALLOC_CONF``.

The keys are those of torch 2.13. Those that say nothing about where device memory goes are read, checked and have no
effect; those that memlake does not reproduce are refused, each with its reason.
"""

from __future__ import annotations

import difflib
import re

from memlake.errors import ConfigError
from memlake.policies.torch_options import CachingOptions, ExpandableOptions, TorchOptions

__all__ = ["EFFECTIVE_KEYS", "IGNORED_KEYS", "REFUSED_KEYS", "parse_alloc_conf"]

_SIZES = {
    "large_segment_size_mb": "large_segment_size",
    "max_split_size_mb": "max_split_size",
    "max_non_split_rounding_mb": "max_non_split_rounding",
}
_SHARES = {
    "garbage_collection_threshold": "garbage_collection_threshold",
    "per_process_memory_fraction": "memory_fraction",
}

EFFECTIVE_KEYS = (*_SIZES, *_SHARES, "roundup_power2_divisions", "expandable_segments")
"""The keys that change what a policy does."""

_HOST_MEMORY = "it is about pinned host memory"
_A_LOCK = "it is about a lock, and changes no placement"
IGNORED_KEYS = {
    "pinned_use_cuda_host_register": _HOST_MEMORY,
    "pinned_use_hip_host_register": _HOST_MEMORY,
    "pinned_num_register_threads": _HOST_MEMORY,
    "pinned_use_background_threads": _HOST_MEMORY,
    "pinned_reserve_segment_size_mb": _HOST_MEMORY,
    "pinned_free_catch_all": _HOST_MEMORY,
    "pinned_max_round_threshold_mb": _HOST_MEMORY,
    "pinned_max_cached_size_mb": _HOST_MEMORY,
    "release_lock_on_cudamalloc": _A_LOCK,
    "release_lock_on_hipmalloc": _A_LOCK,
    "graph_capture_record_stream_reuse": "it acts only while a CUDA graph is captured, which no trace records",
}
"""The keys that are accepted without effect, each with the reason."""

REFUSED_KEYS = {
    "backend": "only native is PyTorch's own allocator; cudaMallocAsync leaves memory to the driver",
    "throw_on_cudamalloc_oom": "refusing before anything is tried is not reproduced; leave it at False",
    "expandable_segments_reserve": "it is newer than torch 2.13, whose allocator this is",
    "expandable_segments_reserve_by_class": "it is newer than torch 2.13, whose allocator this is",
}
"""The keys that are refused unless they ask for the default, each with the reason."""
_DEFAULTS = {"backend": "native", "throw_on_cudamalloc_oom": "False"}

_ENTRY = re.compile(r"([A-Za-z_0-9]+):(\[[^\[\]]*\]|[^,\[\]:]+)(?:,|$)")


def parse_alloc_conf(text: str) -> TorchOptions:
    """The policy that PyTorch would use with this configuration string.

    Args:
        text: for instance ``"expandable_segments:True,max_split_size_mb:128"``. A key that comes twice counts as given
            last, as in PyTorch.

    Raises:
        ConfigError: if the string cannot be read, if PyTorch would refuse it, or if it asks for something that memlake
            does not reproduce; it names the key, and the nearest known one if the key is unknown.
    """
    is_expandable = False
    chosen: dict[str, object] = {}
    for key, value in _entries(text):
        if key == "expandable_segments":
            is_expandable = _boolean(key, value)
        elif key in _SIZES:
            chosen[_SIZES[key]] = _whole_number(key, value) * 2**20
        elif key in _SHARES:
            chosen[_SHARES[key]] = _share(key, value)
        elif key == "roundup_power2_divisions":
            chosen[key] = value
        elif key in REFUSED_KEYS:
            if value != _DEFAULTS.get(key):
                raise ConfigError(f"{key}:{value} cannot be used: {REFUSED_KEYS[key]}")
        elif key not in IGNORED_KEYS:
            raise ConfigError(_unknown(key))
    options = ExpandableOptions if is_expandable else CachingOptions
    return options(**chosen)  # type: ignore[arg-type]  # the constructor checks the values


def _entries(text: str) -> list[tuple[str, str]]:
    stripped = re.sub(r"\s", "", text)
    entries = []
    position = 0
    while position < len(stripped):
        match = _ENTRY.match(stripped, position)
        if match is None:
            raise ConfigError(
                f"cannot read {stripped[position : position + 40]!r} in the configuration {_shorten(text)}; "
                'write key:value,key:value as in PYTORCH_ALLOC_CONF, for instance "max_split_size_mb:128"'
            )
        entries.append((match[1], match[2]))
        position = match.end()
    return entries


def _unknown(key: str) -> str:
    known = [*EFFECTIVE_KEYS, *IGNORED_KEYS, *_DEFAULTS]
    nearest = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    return f"unknown option {_shorten(key)} in a PyTorch configuration; {hint}known: {', '.join(sorted(known))}"


def _boolean(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise ConfigError(f"{key} must be True or False, written like this, got {_shorten(value)}")
    return value == "True"


def _whole_number(key: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", value):
        raise ConfigError(f"{key} must be a whole number of MiB, got {_shorten(value)}")
    return int(value)


def _share(key: str, value: str) -> float:
    if not re.fullmatch(r"[0-9]{1,19}(\.[0-9]{0,19})?|\.[0-9]{1,19}", value):
        raise ConfigError(f"{key} must be a number between 0 and 1, got {_shorten(value)}")
    share = float(value)
    if key == "garbage_collection_threshold" and not 0 < share < 1:
        raise ConfigError(f"{key} must be between 0 and 1, got {_shorten(value)}; leave it out to turn it off")
    return share


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
