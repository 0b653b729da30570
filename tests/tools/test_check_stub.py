"""The committed stub is what the built module offers; a stub that is not is rejected with the command that mends it."""

from pathlib import Path

import pytest

pytest.importorskip("nanobind", reason="nanobind, a build requirement, makes the stub; `make test` installs it")

STUB = Path(__file__).resolve().parents[2] / "src" / "memlake" / "_native.pyi"


def test_the_committed_stub_is_current(check):
    assert check("check_stub.py") == (0, "")


def test_a_changed_stub_is_rejected(tmp_path, check):
    changed = tmp_path / "_native.pyi"
    changed.write_text(STUB.read_text().replace("def noop() -> None", "def noop() -> int"))
    status, said = check("check_stub.py", "--stub", changed)
    assert status == 1
    assert "-def noop() -> int" in said
    assert "+def noop() -> None" in said
    assert "make stub" in said


def test_write_makes_it_current(tmp_path, check):
    written = tmp_path / "_native.pyi"
    assert check("check_stub.py", "--write", "--stub", written) == (0, "")
    assert written.read_text() == STUB.read_text()
