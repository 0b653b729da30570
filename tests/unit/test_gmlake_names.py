"""The page for readers of the GMLake tutorial has each of its names; test_guides.py runs the code of the page."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/gmlake_names.md"

# Every struct, field and function in the code of the tutorial on GMLake.
TUTORIAL = {
    "The pool": "create_gpu_pool create_cache pool->allocate cache->allocate memory_segments memory_blocks "
    "request_new_block request_new_segment",
    "MemoryBlock": "MemoryBlock size is_free address",
    "PhyBlock and VirBlock": "PhyBlock VirBlock size device is_free address",
    "VmmSegment": "VmmSegment vmm->allocate get_block segment_ptr phy_blocks granul_size device_id status free_blocks "
    "used_blocks fused released stitch_blocks",
}


@pytest.mark.parametrize("section", TUTORIAL)
def test_every_name_of_the_gmlake_tutorial_has_a_row_and_a_line_that_runs(section):
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    named = " ".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))
    run = " ".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    said = " ".join(re.findall(r"#(.*)$", run, re.MULTILINE))
    for name in TUTORIAL[section].split():
        assert re.search(rf"\b{name}\b", named), name
        assert re.search(rf"\b{name}\b", said), name
