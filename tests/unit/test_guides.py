"""The code in the guides runs, and the commands in them print what the guides say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.documents import program
from helpers.printed import assert_printed
from helpers.processes import assert_ends_well

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def code_of(guide):
    return program(f"docs/guides/{guide}")


def test_stitching_by_hand_runs_from_top_to_bottom():
    assert "nothing is left" in assert_ends_well(code_of("stitch_by_hand.md"))


def test_whether_it_will_fit_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = assert_ends_well(code_of("will_it_fit.md"))
    assert "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in said
    assert "expandable needs a device of 59.12 GiB" in said
    text = (GUIDES / "will_it_fit.md").read_text()
    blocks = re.findall(r"^```console\n\$ memlake (.*?)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert {command.split()[0] for command, _ in blocks} == {"show", "advise", "compare", "fit", "diff"}
    for command, expected in blocks:
        asked = [sys.executable, "-m", "memlake", *command.split()]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert_printed(expected, done.stdout)


def test_sweeping_many_files_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = assert_ends_well(code_of("sweep_many_files.md"))
    assert "lake on 60 GiB - 2" in said
    text = (GUIDES / "sweep_many_files.md").read_text()
    blocks = re.findall(r"^```console\n\$ memlake (.*?)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [command.split()[0] for command, _ in blocks] == ["sweep", "report"]
    for command, expected in blocks:
        asked = [sys.executable, "-m", "memlake", *command.split()]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(expected.removesuffix("...\n"))  # a page has another size with every version


@pytest.mark.alone("published-pools")
def test_watching_pools_runs_from_top_to_bottom(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert "lake 340 MiB live" in assert_ends_well(code_of("watch_pools.md"))


def test_the_tests_of_the_testing_guide_pass(pytester):
    pytester.makepyfile(code_of("testing_without_a_gpu.md"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=5)


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


def test_the_names_of_the_gmlake_tutorial_run_from_top_to_bottom():
    assert_ends_well(code_of("gmlake_names.md"))


def test_what_a_device_is_asked_and_memory_for_registrations():
    said = assert_ends_well(code_of("on_real_hardware.md"))
    assert "False cuMemSetAccess answered 999 (CUDA_ERROR_UNKNOWN)" in said
    assert "67108864 ('posix_fd',) True" in said


def test_memlake_in_pytorch_says_what_it_needs():
    """The guide pytorch.md needs a PyTorch with CUDA; without one its first line raises an error that it lists."""
    first = re.findall(r"^```python\n(.*?)^```", (GUIDES / "pytorch.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, check=False)
    assert "without CUDA" in done.stderr or "PyTorch is not installed" in done.stderr


def test_looking_at_a_job_writes_its_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (GUIDES / "look_at_a_job.md").read_text()
    assert "runs out of memory" in assert_ends_well(code_of("look_at_a_job.md"))
    assert (tmp_path / "moe.html").read_text().startswith("<!doctype html>")
    commands = re.findall(r"^(?:\$ )?memlake ((?:report|convert) train_.*)$", text, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["report", "convert", "convert"]
    for command in commands:
        asked = [sys.executable, "-m", "memlake", *command.split("#")[0].split()]
        subprocess.run(asked, capture_output=True, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        "moe.html",
        "report.html",
        "viewer.pickle",
        "job.perfetto.json.gz",
    }


@pytest.mark.parametrize("guide", sorted(path.name for path in GUIDES.glob("*.md") if code_of(path.name)))
def test_the_code_of_every_guide_is_run_here(guide):
    assert guide in Path(__file__).read_text()
