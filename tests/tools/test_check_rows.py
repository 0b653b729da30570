"""The check of docs/where_changes_go.md finds files that a row leaves out, and files that it names without need."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = "docs/where_changes_go.md"


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's own rows, and the files that they speak of."""
    root = tmp_path_factory.mktemp("copy")
    for name in ("core", "bindings", "emulator", "src", "docs"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.npz", "*.so"))
    for name in ("pyproject.toml", "CMakeLists.txt"):
        shutil.copy(PROJECT / name, root / name)
    return root


class Copy:
    """A copy of which a test changes single files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._before: dict[str, str] = {}

    def write(self, path: str, text: str) -> None:
        self._before.setdefault(path, (self.root / path).read_text())
        (self.root / path).write_text(text)

    def append(self, path: str, text: str) -> None:
        self.write(path, (self.root / path).read_text() + text)

    def change(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def undo(self) -> None:
        for path, text in self._before.items():
            (self.root / path).write_text(text)


@pytest.fixture
def copy(clean_copy: Path) -> Iterator[Copy]:
    """The copy, which is as before when the test is over."""
    copy = Copy(clean_copy)
    yield copy
    copy.undo()


def test_the_projects_own_rows_are_true(copy, check):
    assert check("check_rows.py", copy.root) == (0, "")


LEFT_OUT = [
    ("core/pool/shortage.cpp", "// StitchSpace", "the policy stitch"),
    ("src/memlake/pool/pool.py", "# stitch_options", "the policy stitch"),
    ("docs/glossary.md", "one of `caching`, `stitch`, `direct`", "the policy stitch"),
    ("docs/guides/will_it_fit.md", 'GMLake (`"stitch"`)', "the policy stitch"),
    ("docs/reference/api.md", "memlake_pool_free_on", "the C function memlake_pool_free_on"),
    ("core/pool/acquire.cpp", "// Rung::spill", "the rung spill"),
    ("core/replay/replay.cpp", "// ShareableSpace", "the space shareable"),
    ("bindings/bind_replay.cpp", "// num_frees", "the statistic frees"),
    ("bindings/bind_pool.cpp", "// held_by_other_pools", "the figure held_by_other_pools"),
    ("src/memlake/analysis/growth.py", "# memlake.trace.from_rmm", "the reader of rmm"),
    ("src/memlake/cli/compare.py", "# an RMM log", "the reader of rmm"),
    ("src/memlake/pool/pool.py", "# memlake.tables.health", "the table health"),
    ("src/memlake/pool/pool.py", "# integrations/cuda_core", "the integration cuda_core"),
    ("core/driver/library.cpp", "// libmemlake_emulator.so", "the driver emulator"),
    ("core/abi/torch_pools.cpp", '// "emulated"', "the driver emulator"),
    ("docs/reference/emulator.md", "`emulated`, or a path", "the driver emulator"),
    ("src/memlake/tables/health.py", "_COMMANDS = ()", "the command doctor"),
]


@pytest.fixture(scope="module")
def said_of_all(clean_copy, check):
    """What the check says if every file below has the words of a change that does not touch it."""
    copy = Copy(clean_copy)
    for path, text, _ in LEFT_OUT:
        copy.append(path, f"\n{text}\n")
    said = check("check_rows.py", clean_copy)
    copy.undo()
    return said


@pytest.mark.parametrize(("path", "text", "message"), LEFT_OUT)
def test_a_file_that_a_row_leaves_out_is_found(said_of_all, path, text, message):
    status, said = said_of_all
    assert status == 1
    assert said.count(f"does not name {path}, which {message} touches") == 1


def test_nothing_else_is_found(said_of_all):
    assert len(said_of_all[1].splitlines()) == len({(path, message) for path, _, message in LEFT_OUT})


def test_a_module_without_a_floor_makes_its_row_untrue(copy, check):
    copy.change("src/memlake/README.md", "`vmm/`", "`maps/`")
    status, said = check("check_rows.py", copy.root)
    assert status == 1
    assert "names src/memlake/README.md, which the module vmm does not touch" in said


def test_a_file_that_a_row_names_without_need_is_found(copy, check):
    copy.change(
        GUIDE,
        "one line in `core/pool/statistics.inc`",
        "one line in `core/pool/statistics.inc`, `core/README.md`",
    )
    status, said = check("check_rows.py", copy.root)
    assert status == 1
    assert "names core/README.md, which the statistic frees does not touch" in said


def test_a_row_that_is_missing_is_found(copy, check):
    copy.change(GUIDE, "| add a command to `memlake`", "| add a word to `memlake`")
    status, said = check("check_rows.py", copy.root)
    assert status == 1
    assert 'docs/where_changes_go.md:1: has no row "add a command to `memlake` ..."' in said
