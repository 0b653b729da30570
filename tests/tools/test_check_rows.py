"""The check of docs/where_changes_go.md finds files that a row leaves out, and files that it names without need."""

import shutil
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = "docs/where_changes_go.md"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project's own rows, and the files that they speak of."""
    for name in ("core", "bindings", "emulator", "src", "docs"):
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.npz", "*.so"))
    for name in ("pyproject.toml", "CMakeLists.txt"):
        shutil.copy(PROJECT / name, tmp_path / name)
    return tmp_path


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_projects_own_rows_are_true(copy, check):
    assert check("check_rows.py", copy) == (0, "")


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
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
    ],
)
def test_a_file_that_a_row_leaves_out_is_found(copy, check, path, text, message):
    with (copy / path).open("a") as file:
        file.write(f"\n{text}\n")
    status, said = check("check_rows.py", copy)
    assert status == 1
    assert f"does not name {path}, which {message} touches" in said


def test_a_module_without_a_floor_makes_its_row_untrue(copy, check):
    change(copy / "src/memlake/README.md", "`vmm/`", "`maps/`")
    status, said = check("check_rows.py", copy)
    assert status == 1
    assert "names src/memlake/README.md, which the module vmm does not touch" in said


def test_a_file_that_a_row_names_without_need_is_found(copy, check):
    change(
        copy / GUIDE,
        "one line in `core/pool/statistics.inc`",
        "one line in `core/pool/statistics.inc`, `core/README.md`",
    )
    status, said = check("check_rows.py", copy)
    assert status == 1
    assert "names core/README.md, which the statistic frees does not touch" in said


def test_a_row_that_is_missing_is_found(copy, check):
    change(copy / GUIDE, "| add a command to `memlake`", "| add a word to `memlake`")
    status, said = check("check_rows.py", copy)
    assert status == 1
    assert 'docs/where_changes_go.md:1: has no row "add a command to `memlake` ..."' in said
