import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@cache
def run(example):
    """Runs an example. It is run once, for all tests that look at what it says."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(example)], capture_output=True, text=True, check=False, cwd=example.parent
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs_and_says_something(example):
    done = run(example)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_demo_says_in_one_sentence_who_dies():
    text = run(next(path for path in EXAMPLES if path.stem == "will_it_fit")).stdout
    assert "In short: PyTorch's native allocator dies on 64 GiB" in text
    assert max(map(len, text.splitlines())) <= 120


def test_lake_gathers_what_both_allocators_of_pytorch_refuse_and_the_pictures_show_it():
    text = run(next(path for path in EXAMPLES if path.stem == "gather_scattered_memory")).stdout
    assert re.findall(r"^(\w+) +(out of memory|ok) ", text, re.MULTILINE) == [
        ("caching", "out of memory"),
        ("expandable", "out of memory"),
        ("lake", "ok"),
    ]
    lines = re.findall(r"^   \|(.*)\|$", text, re.MULTILINE)
    before, after = "".join(lines[: len(lines) // 2]), "".join(lines[len(lines) // 2 :])
    assert len(before) == len(after)
    # The 192 characters of 2 MiB of the new buffer lie side by side, where there was no memory.
    assert after.count("O") == 192
    assert "O" * 192 in after
    assert before[after.index("O") :][:187] == " " * 187
    assert max(map(len, re.findall(r"\.+", before))) < 10
    # What is in use did not move.
    assert [at for at, shown in enumerate(before) if shown == "#"] == [
        at for at, shown in enumerate(after) if shown == "#"
    ]
    assert re.search(r"lake mapped \d+ free chunks at the new addresses and created 0\.", text)
    assert max(map(len, text.splitlines())) <= 120


def test_stitching_by_hand_proves_what_it_says_in_little_memory():
    text = run(next(path for path in EXAMPLES if path.stem == "stitch_by_hand")).stdout
    assert "free in all        10 GiB" in text
    assert "free side by side  640 MiB" in text
    assert "CUDA_ERROR_OUT_OF_MEMORY" in text
    assert "32 of them read back" in text
    assert "nothing is left, 0 rules violated" in text
    assert max(map(len, text.splitlines())) <= 120
    (peak,) = re.findall(r"Peak resident memory: ([\d.]+) MiB", text)
    assert float(peak) < 300


def test_a_buffer_over_two_gpus_lies_on_both_and_moves_without_new_memory():
    text = run(next(path for path in EXAMPLES if path.stem == "two_gpus_one_buffer")).stdout
    assert "GPU 0: 8 GiB from offset 0 B" in text
    assert "GPU 1: 2 GiB from offset 8 GiB" in text
    assert '"half here, half there"' in text
    assert "8 GiB are free, at most 512 MiB of it side by side" in text
    assert ", 0 made anew; all is sound." in text


def test_two_processes_share_a_buffer_and_nothing_is_left():
    text = run(next(path for path in EXAMPLES if path.stem == "share_a_buffer")).stdout
    assert "1 GiB in 16 chunks go to another process" in text
    assert "What it wrote is here: [0, 2, 4, 6]" in text
    assert "the pool holds 0 B; the other process still reads its bytes: True" in text
    assert "0 B are left on the device" in text
