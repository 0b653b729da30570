"""The page of the commands is that of the parsers; another one is rejected with the command that makes it again."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def test_the_committed_page_is_current(check):
    assert check("check_cli.py") == (0, "")


def test_a_changed_page_is_rejected_and_can_be_made_again(tmp_path, check):
    changed = tmp_path / "cli.md"
    changed.write_text(PAGE.read_text().replace("| `--sites N` |", "| `--places N` |"))
    status, said = check("check_cli.py", "--page", changed)
    assert status == 1
    assert "make cli" in said
    assert check("check_cli.py", "--write", "--page", changed) == (0, "")
    assert changed.read_text() == PAGE.read_text()


def test_it_has_every_command_and_every_option():
    page = PAGE.read_text()
    assert "| `TRACE [TRACE ...]` |" in page
    assert "| `--steps N M` |" in page
    assert "(default: 10)" in page
    assert "| `{enable,disable,status}` |" in page
    assert "%(" not in page
