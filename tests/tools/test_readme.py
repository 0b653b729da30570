"""What the README promises: its example runs with no GPU, and the commands it names exist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def fenced(language: str) -> list[str]:
    """The code fences of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_first_example_runs_and_prints_what_its_comments_say(tmp_path):
    example = fenced("python")[0]
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
