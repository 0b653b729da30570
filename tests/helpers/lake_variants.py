"""The variants of the policy lake that tests run on: one for each way in which chunks may be mapped."""

from __future__ import annotations

from memlake.policies import LakeOptions

__all__ = ["lake_variants"]


def lake_variants() -> dict[str, LakeOptions]:
    """Returns the options of each variant by a name for test reports."""
    return {level: LakeOptions(aliasing=level) for level in ("none", "whole", "prefix")}
