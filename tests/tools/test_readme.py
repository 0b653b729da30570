"""What the README promises: its example runs with no GPU, and the commands it names exist."""

import re
import subprocess
import sys
from pathlib import Path

from helpers.printed import assert_printed
from make_pictures import CAPACITY, PICTURES, TRACE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def fenced(language: str) -> list[str]:
    """The code fences of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_first_example_is_the_line_for_pytorch():
    example = fenced("python")[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)
    # The tests have a PyTorch without CUDA, or none.
    assert "ConfigError: this PyTorch" in done.stderr or "ConfigError: PyTorch is not installed" in done.stderr


def test_the_example_of_a_pool_runs_and_prints_what_its_comments_say(tmp_path):
    example = fenced("python")[1]
    assert len(example.splitlines()) <= 25
    promised = re.findall(r"print\(.*\)\s+# (.+)", example)
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines() == promised


def test_every_make_command_it_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", "\n".join(fenced("sh") + re.findall(r"`make [a-z-]+`", README))))
    assert {"demo", "test"} <= named
    assert named <= targets


def test_it_names_every_command_of_memlake_and_no_other():
    commands = re.findall(r"^memlake ([a-z]+)\b", "\n".join(fenced("sh")), re.MULTILINE)
    done = subprocess.run([sys.executable, "-m", "memlake", "--help"], capture_output=True, text=True, check=True)
    assert set(commands) == set(re.findall(r"^    ([a-z]+) {2,}", done.stdout, re.MULTILINE))


def test_what_it_shows_of_advise_is_what_advise_prints(tmp_path):
    shown = re.search(r"^```\n(Recommendation:.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    asked = re.search(r"`memlake (advise .*?)`", README)[1].split()
    done = subprocess.run(
        [sys.executable, "-m", "memlake", *asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith(shown)


def test_its_table_against_pytorch_has_the_figures_of_the_reference():
    def cells(text):
        rows = re.findall(r"^\| ([a-z0-9_]+ \|.*) \|$", text, re.MULTILINE)
        return {name: figures for name, *figures in (row.split(" | ") for row in rows)}

    shown = cells(README.partition("## Next to PyTorch's own allocators")[2].partition("\n## ")[0])
    measured = cells((ROOT / "docs/reference/pytorch_figures.md").read_text().partition("<!-- the table -->")[2])
    del shown["program"], measured["program"]
    assert len(measured) == 16
    assert len(shown) == 5
    assert shown == {name: measured[name][1:8] for name in shown}
    more = [name for name, (_, _, native, _, memlake, *_) in measured.items() if float(memlake) > float(native)]
    assert set(more) <= set(shown)


def test_what_it_shows_of_compare_is_what_compare_prints(tmp_path):
    shown = re.search(r"^```\n(policy +outcome.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    asked = re.search(r"`memlake (compare .*?)`", README)[1].split()
    done = subprocess.run(
        [sys.executable, "-m", "memlake", *asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert_printed(f"...\n{shown}...\n", done.stdout)


def test_the_picture_of_the_report_is_of_the_command_beside_it(tmp_path):
    asked = re.search(r"`memlake (report .*?)`", README)[1].split()
    assert asked == ["report", TRACE, "--capacity", CAPACITY]
    assert "docs/images/report_map.png" in README
    assert "report_map.png" in PICTURES
    done = subprocess.run(
        [sys.executable, "-m", "memlake", *asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Wrote report.html")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
