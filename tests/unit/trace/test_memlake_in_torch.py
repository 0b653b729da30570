"""Snapshots of jobs that ran under memlake inside PyTorch: memlake's shim adds its configuration to PyTorch's text."""

from __future__ import annotations

from typing import Any

import pytest

from memlake.trace import JobSettings


def settings_of(text: Any) -> JobSettings:
    return JobSettings.from_metadata(
        {"source": "PyTorch snapshot", "is_expandable": True, "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": text}}
    )


@pytest.mark.parametrize(
    ("text", "configuration"),
    [
        ("memlake:lake", "lake"),
        ("memlake:lake;limit:90%", "lake,limit:90%"),
        ("expandable_segments:True,memlake:lake;aliasing:none", "lake,aliasing:none"),
    ],
)
def test_the_job_ran_under_memlake(text: str, configuration: str) -> None:
    settings = settings_of(text)

    assert settings.memlake == configuration
    assert settings.policy is None


@pytest.mark.parametrize(
    "text", ["", "expandable_segments:True", "memlake:lake,max_split_size_mb:20", "xmemlake:lake", 5]
)
def test_the_job_ran_under_pytorchs_own_allocator(text: Any) -> None:
    settings = settings_of(text)

    assert settings.memlake == ""
    assert settings.policy is not None
