"""The policies by name, each with its options, and the text that selects and configures them.

::

    memlake.policy("caching")                                                # PyTorch's native allocator, its defaults
    memlake.policy("stitch,frag_limit:64MiB")                                # with an option
    memlake.policy("expandable_segments:True,max_split_size_mb:128")         # PYTORCH_ALLOC_CONF's syntax
    memlake.policies.CachingOptions(max_split_size="128MiB", memory_fraction=0.9)

Wherever memlake takes ``policy=``, it takes any of these. docs/reference/policies.md describes the options.
"""

from memlake.policies.driver_options import DriverOptions
from memlake.policies.known import known_policies, policy, resolve_policy
from memlake.policies.lake_options import LakeOptions
from memlake.policies.options import DirectOptions, Options
from memlake.policies.registry import Capabilities, default_policy, policies_with
from memlake.policies.stitch_options import StitchOptions
from memlake.policies.torch_options import CachingOptions, ExpandableOptions, TorchOptions

__all__ = [
    "CachingOptions",
    "Capabilities",
    "DirectOptions",
    "DriverOptions",
    "ExpandableOptions",
    "LakeOptions",
    "Options",
    "StitchOptions",
    "TorchOptions",
    "default_policy",
    "known_policies",
    "policies_with",
    "policy",
    "resolve_policy",
]
