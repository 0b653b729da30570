"""The policies by name, each with its options, and PyTorch's own configuration string.

::

    memlake.policy("caching")                                                # PyTorch's native allocator, its defaults
    memlake.policy("expandable_segments:True,max_split_size_mb:128")         # what PYTORCH_ALLOC_CONF would say
    memlake.policies.CachingOptions(max_split_size="128MiB", memory_fraction=0.9)

Wherever memlake takes ``policy=``, it takes any of the three. docs/reference/policies.md describes the options.
"""

from memlake.policies.driver_options import DriverOptions
from memlake.policies.known import known_policies, policy, resolve_policy
from memlake.policies.lake_options import LakeOptions
from memlake.policies.options import DirectOptions, Options
from memlake.policies.stitch_options import StitchOptions
from memlake.policies.torch_options import CachingOptions, ExpandableOptions, TorchOptions

__all__ = [
    "CachingOptions",
    "DirectOptions",
    "DriverOptions",
    "ExpandableOptions",
    "LakeOptions",
    "Options",
    "StitchOptions",
    "TorchOptions",
    "known_policies",
    "policy",
    "resolve_policy",
]
