"""The code in the guides runs."""

import re
from pathlib import Path

import pytest

from helpers.processes import assert_ends_well

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def code_of(guide):
    text = (GUIDES / guide).read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def test_stitching_by_hand_runs_from_top_to_bottom():
    assert "nothing is left" in assert_ends_well(code_of("stitch_by_hand.md"))


def test_whether_it_will_fit_runs_from_top_to_bottom():
    said = assert_ends_well(code_of("will_it_fit.md"))
    assert "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in said
    assert "expandable needs a device of 59.12 GiB" in said


def test_the_tests_of_the_testing_guide_pass(pytester):
    pytester.makepyfile(code_of("testing_without_a_gpu.md"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=4)


def test_using_a_pool_runs_from_top_to_bottom():
    assert "2 allocations recorded" in assert_ends_well(code_of("use_a_pool.md"))


def test_sharing_between_processes_runs_from_top_to_bottom():
    said = assert_ends_well(code_of("share_between_processes.md"))
    assert "Share(1 GiB in 16 chunks)" in said
    assert "both see 0x707070707070707" in said
    assert "nothing is left" in said


def test_pools_as_cuda_has_them_run_from_top_to_bottom():
    said = assert_ends_well(code_of("cuda_pools.md"))
    assert "reserved_mem_current says what is held and cannot be set" in said
    assert said.endswith("1 0 0\n")


@pytest.mark.parametrize("guide", sorted(path.name for path in GUIDES.glob("*.md")))
def test_every_guide_has_code_that_is_run_here(guide):
    assert guide in Path(__file__).read_text()
