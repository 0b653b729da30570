"""The tables about policies are those of the core; others are rejected with the command that makes them again."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "policies.md"


def test_the_committed_tables_are_current(check):
    assert check("check_policies.py") == (0, "")


def test_a_changed_table_is_rejected_and_can_be_made_again(tmp_path, check):
    changed = tmp_path / "policies.md"
    changed.write_text(PAGE.read_text().replace("128MiB", "64MiB"))
    status, said = check("check_policies.py", "--page", changed)
    assert status == 1
    assert "make policies" in said
    changed.write_text(PAGE.read_text().replace("| `frag_limit` |", "| `limit` |"))
    assert check("check_policies.py", "--write", "--page", changed) == (0, "")
    assert changed.read_text() == PAGE.read_text()


def test_a_policy_without_a_table_is_missed(tmp_path, check):
    changed = tmp_path / "policies.md"
    changed.write_text(PAGE.read_text().replace(": stitch -->", ": lake -->"))
    status, said = check("check_policies.py", "--page", changed)
    assert status == 1
    assert "has no table of the options of: stitch" in said
