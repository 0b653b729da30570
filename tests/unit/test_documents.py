"""Every code block and every command of the documents runs, and prints what the documents say.

The Python of the guides and of the README has tests of its own, in test_guides.py and tests/tools/test_readme.py.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from helpers.documents import Block, blocks, commands, documents, program, write_files
from helpers.printed import assert_printed
from memlake.cli import main

RUN = ("python", "console", "sh")
# What a command of memlake ends with if it has an answer; 2 is bad input.
ANSWERS = (0, 1, 3)
ALL = [block for document in documents() for block in blocks(document)]


def in_language(language):
    return [block for block in ALL if block.language == language and not block.not_run]


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path)
    return tmp_path


def run(command, folder):
    """Runs a command line with the programs of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def run_here(command, folder):
    """Runs a command of memlake in this process, or another command line in a shell."""
    words = shlex.split(command, comments=True)
    if words[:2] == ["memlake", "emulate"] or words[0] != "memlake":
        return run(command, folder)
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.chdir(folder)
        try:
            code = main(words[1:])
        except SystemExit as end:  # of the parser, if it refuses an option
            code = end.code
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


@pytest.mark.parametrize("block", ALL, ids=str)
def test_a_block_in_a_language_is_run_or_says_why_not(block):
    assert block.language in ("", *RUN) or block.not_run, f"no test runs {block.language}"
    assert not block.not_run or len(block.not_run.split()) >= 3, "the reason is no sentence"


# The examples of --help, in docs/reference/cli.md, are single commands, and cannot carry a mark. These cannot run here.
HELP = "docs/reference/cli.md"
NEEDS = {".parquet": "pyarrow", "--engine": "a cluster", "doctor --measure": "a GPU", "gpu.json": "the report of a GPU"}


@pytest.mark.parametrize("block", in_language("sh"), ids=str)
def test_the_commands_of_a_block_run(block, tmp_path):
    for number, command in enumerate(commands(block)):
        if block.document == HELP and any(word in command for word in NEEDS):
            continue
        # Each example of --help stands alone; the commands of other blocks follow one another.
        folder = tmp_path / (str(number) if block.document == HELP else "all")
        if not folder.exists():
            folder.mkdir()
            write_files(folder)
        done = run_here(command, folder)
        allowed = ANSWERS if shlex.split(command, comments=True)[0] == "memlake" else (0,)
        assert done.returncode in allowed, f"{command}\n{done.stdout}{done.stderr}"


# test_guides.py runs those of these guides, after their Python has written the files.
IN_ORDER = {f"docs/guides/{name}.md" for name in ("will_it_fit", "sweep_many_files", "look_at_a_job")}


@pytest.mark.parametrize("block", [one for one in in_language("console") if one.document not in IN_ORDER], ids=str)
def test_a_command_prints_what_is_shown_below_it(block, folder):
    first, _, shown = block.text.partition("\n")
    assert first.startswith("$ memlake ")
    done = run(first.removeprefix("$ "), folder)
    assert done.stderr == ""
    assert_printed(shown, done.stdout)


OWN_TESTS = ("docs/guides/", "README.md")


@pytest.mark.parametrize("document", [name for name in documents() if program(name) and not name.startswith(OWN_TESTS)])
def test_the_python_of_a_document_runs_from_top_to_bottom(document, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program(document)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # What a block prints stands in the block without a language after "It prints:".
    text = Path(__file__).resolve().parents[2].joinpath(document).read_text()
    shown = re.findall(r"^It prints:\n\n```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if shown:
        assert done.stdout == "".join(shown)


def test_a_block_without_a_reason_is_told_from_one_with_a_reason(tmp_path, monkeypatch):
    """The guard itself: what it must find in a document."""
    (tmp_path / "page.md").write_text(
        "```python\n1 / 0\n```\n\n<!-- not run: it needs a GPU -->\n```c\nint x;\n```\n\n```c\nint y;\n```\n"
    )
    monkeypatch.setattr("helpers.documents.ROOT", tmp_path)
    assert documents() == ["page.md"]
    assert blocks("page.md") == [
        Block("page.md", 1, "python", "1 / 0\n"),
        Block("page.md", 6, "c", "int x;\n", "it needs a GPU"),
        Block("page.md", 10, "c", "int y;\n"),
    ]
    assert program("page.md") == "1 / 0\n"


def test_the_first_steps_cover_the_way_from_a_file_to_a_pool():
    page = blocks("docs/tutorials/first_steps.md")
    asked = [block.text.split()[2] for block in page if block.language == "console"]
    assert asked == ["doctor", "show", "compare", "advise", "fit"]
    assert "memlake.Pool" in program("docs/tutorials/first_steps.md")
    assert not any(block.not_run for block in page)
