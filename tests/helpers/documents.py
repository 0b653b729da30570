"""The code blocks of the project's documents, and a folder with the files that their commands name.

A block in a language is run by a test. A block that cannot be run has a comment in the line above it, which neither the
repository's host nor the site shows: ``<!-- not run: the reason -->``.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import memlake
from helpers.torch_snapshots import TorchJob, roomy_job

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
FENCE = re.compile(r"^( *)(```+)(\w*)\n(.*?)^ *\2 *$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One code block of a document."""

    document: str
    line: int
    language: str
    text: str
    not_run: str = ""
    """Why no test runs it; empty if one does."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def documents() -> list[str]:
    """The paths of all documents of the project."""
    hidden = ("build", "dist", "site", "node_modules", "results")
    found = [path.relative_to(ROOT) for path in ROOT.rglob("*.md")]
    return sorted(str(path) for path in found if not any(part in hidden or part[0] == "." for part in path.parts))


def blocks(document: str) -> list[Block]:
    """The code blocks of a document, in order."""
    text = (ROOT / document).read_text()
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        above = text[: match.start()].rstrip("\n").rpartition("\n")[2]
        reason = NOT_RUN.fullmatch(above.strip())
        found.append(Block(document, line, match[3], match[4], reason[1] if reason else ""))
    return found


def program(document: str) -> str:
    """All Python blocks of a document that a test runs, as one program."""
    return "\n".join(block.text for block in blocks(document) if block.language == "python" and not block.not_run)


def commands(block: Block) -> list[str]:
    """The commands of a block for a shell, each on one line; comments are left out."""
    joined = block.text.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _training_job(growth: int = 0) -> TorchJob:
    """A job of eight equal steps, with labels and stacks; each step keeps so many MiB."""
    job = TorchJob(4096)
    weights = [job.alloc_at("/home/someone/model.py:7 __init__", 40) for _ in range(4)]
    for _ in range(8):
        step = [job.alloc_at(f"/home/someone/train.py:{line} forward", 10 * line) for line in (11, 12, 13, 14)]
        for address in step:
            job.free(address)
        if growth:
            job.alloc_at("/home/someone/log.py:3 remember", growth)
    assert weights
    for event in job.events:
        event["compile_context"] = "0/0"
    return job


@cache
def _sweep_results() -> bytes:
    """A results file of a small sweep. It is made once, because many tests write the files."""
    with tempfile.TemporaryDirectory() as folder:
        for rank, mib in enumerate((860, 880)):
            roomy_job(mib).save(Path(folder) / f"rank_{rank}.pickle")
        results = Path(folder) / "results.jsonl"
        memlake.sweep(folder, ["1GiB", "2GiB"], ["lake", "caching"], results=results)
        return results.read_bytes()


def write_files(folder: Path) -> None:
    """Writes the files that the commands of the documents name."""
    _training_job().save(folder / "snapshot.pickle")
    _training_job().save(folder / "before.pickle")
    _training_job(growth=12).save(folder / "after.pickle")
    (folder / "run/snapshots").mkdir(parents=True)
    for rank, mib in enumerate((860, 880)):
        roomy_job(mib).save(folder / f"run/rank_{rank}.pickle")
        roomy_job(mib).save(folder / f"run/snapshots/rank_{rank}.pickle")
    (folder / "memlake_sweep.jsonl").write_bytes(_sweep_results())
    client = (
        'import ctypes\n\ncuda = ctypes.CDLL("libcuda.so.1")\nassert cuda.cuInit(0) == 0\nprint("on the emulator")\n'
    )
    for name in ("test.py", "test_my_allocator.py", "train.py"):
        (folder / name).write_text(client)
    (folder / "my_program").write_text("#!/usr/bin/env python\n" + client)
    (folder / "my_program").chmod(0o755)
    (folder / "program.c").write_text(
        "#include <memlake.h>\nint main(void) { return memlake_abi_version() == MEMLAKE_ABI_VERSION ? 0 : 1; }\n"
    )
