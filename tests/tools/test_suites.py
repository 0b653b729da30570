"""The runner of tests/emulator/suites: what its comparison accepts and rejects, and what it makes of crashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.emulator.suites.catalogue import SUITES, how_to_get
from tests.emulator.suites.expectations import (
    Expected,
    Reason,
    Rule,
    differences,
    faults,
    load,
    matches,
    patterns,
    reasons,
    renewed,
    totals,
)
from tests.emulator.suites.running import END_OF_PROCESS, WHOLE_FILE, Outcome, read_journal, run_file

ROOT = Path(__file__).resolve().parents[2]
PASSED = Outcome("passed")
FAILED = Outcome("failed", "the message")
EXPECTED = Expected(1, (Rule("failed", 1, "runtime", ("test_b",)),))
KNOWN = {"runtime": Reason("a sentence", "message|no device"), "slow": Reason("a sentence", "message", may_pass=True)}


def test_the_expected_results_have_no_difference():
    assert differences(EXPECTED, {"test_a": PASSED, "test_b": FAILED}, KNOWN) == []


def test_a_failure_without_a_rule_is_reported_with_its_message():
    sentences = differences(EXPECTED, {"test_a": FAILED, "test_b": FAILED}, KNOWN)
    assert sentences == ["unexpectedly failed: test_a: the message", "0 tests passed, 1 are expected"]


def test_another_outcome_than_that_of_the_rule_is_reported():
    (sentence,) = differences(EXPECTED, {"test_a": PASSED, "test_b": Outcome("skipped", "no device")}, KNOWN)
    assert sentence == "unexpectedly skipped: test_b (expected: failed, runtime): no device"


def test_an_unexpected_pass_is_reported():
    sentences = differences(EXPECTED, {"test_a": PASSED, "test_b": PASSED}, KNOWN)
    assert sentences == [
        "unexpected pass: test_b (expected: failed, runtime)",
        "2 tests passed, 1 are expected",
    ]


def test_another_cause_than_that_of_the_reason_is_reported():
    (sentence,) = differences(EXPECTED, {"test_a": PASSED, "test_b": Outcome("failed", "out of memory")}, KNOWN)
    assert (
        sentence == "failed for another reason than runtime, which shows as /message|no device/: test_b: out of memory"
    )


def test_what_a_test_wrote_may_show_the_reason():
    wrote = Outcome("failed", "exit code 1", "a child wrote\nno device\n")
    assert differences(EXPECTED, {"test_a": PASSED, "test_b": wrote}, KNOWN) == []
    at_a_line = {"runtime": Reason("a sentence", "^no device$")}
    assert differences(EXPECTED, {"test_a": PASSED, "test_b": wrote}, at_a_line) == []


def test_a_test_that_may_pass_counts_neither_way():
    expected = Expected(1, (Rule("failed", 1, "slow", ("test_b",)),))
    assert differences(expected, {"test_a": PASSED, "test_b": FAILED}, KNOWN) == []
    assert differences(expected, {"test_a": PASSED, "test_b": PASSED}, KNOWN) == []
    (sentence,) = differences(expected, {"test_a": PASSED, "test_b": Outcome("failed", "else")}, KNOWN)
    assert sentence.startswith("failed for another reason than slow")


def test_a_renewed_table_drops_a_reason_that_does_not_show_and_keeps_one_that_may_pass():
    expected = Expected(0, (Rule("failed", 1, "runtime", ("test_a",)), Rule("failed", 1, "slow", ("test_b",))))
    assert renewed(expected, {"test_a": Outcome("failed", "else"), "test_b": PASSED}, KNOWN) == {
        "passed": 0,
        "others": [
            {"outcome": "failed", "count": 1, "why": "", "tests": ["test_a"]},
            {"outcome": "failed", "count": 1, "why": "slow", "tests": ["test_b"]},
        ],
    }


def test_a_crash_is_reported_although_a_rule_covers_the_test():
    sentences = differences(EXPECTED, {"test_a": PASSED, "test_b": Outcome("crashed", "killed by SIGSEGV")}, KNOWN)
    assert sentences == ["crash: test_b: killed by SIGSEGV"]


def test_a_test_that_is_gone_is_reported():
    assert differences(EXPECTED, {"test_a": PASSED}, KNOWN) == [
        "no such test any more: test_b (expected: failed, runtime)"
    ]


def test_fewer_passed_tests_than_expected_are_reported():
    assert differences(EXPECTED, {"test_b": FAILED}, KNOWN) == ["0 tests passed, 1 are expected"]


def test_a_pattern_must_cover_as_many_tests_as_it_says():
    expected = Expected(0, (Rule("failed", 2, "runtime", ("test_b[*]",)),))
    assert differences(expected, {"test_b[1]": FAILED, "test_b[2]": FAILED}, KNOWN) == []
    sentences = differences(expected, {"test_b[1]": FAILED, "test_b[2]": PASSED}, KNOWN)
    assert sentences == ["1 tests failed instead of 2: test_b[*]", "1 tests passed, 0 are expected"]
    assert "3 tests failed instead of 2: test_b[*]" in differences(
        expected, {"test_b[1]": FAILED, "test_b[2]": FAILED, "test_b[3]": FAILED}, KNOWN
    )


def test_a_file_without_a_table_must_not_have_tests():
    assert differences(Expected(), {"test_a": PASSED}, KNOWN) == ["1 tests passed, 0 are expected"]


def test_only_the_star_of_a_pattern_has_a_meaning():
    assert matches("test[a?]*", "test[a?] and more")
    assert matches("*", "several\nlines")
    assert not matches("test[a]", "testa")
    assert not matches("test", "test_more")


def test_a_renewed_table_keeps_reasons_and_leaves_new_ones_to_be_written():
    found = {"test_a": PASSED, "test_b": FAILED, "test_c[1]": FAILED, "test_c[2]": FAILED}
    assert renewed(EXPECTED, found, KNOWN) == {
        "passed": 1,
        "others": [
            {"outcome": "failed", "count": 2, "why": "", "tests": ["test_c[*]"]},
            {"outcome": "failed", "count": 1, "why": "runtime", "tests": ["test_b"]},
        ],
    }


def test_a_renewed_table_never_expects_a_crash():
    assert renewed(EXPECTED, {"test_b": Outcome("crashed")}, KNOWN) == {"passed": 0, "others": []}


def test_a_pattern_stands_only_for_all_cases_of_a_test():
    every = {"a[1]": 0, "a[2]": 0, "b[1]": 0, "b[2]": 0, "c[1]": 0}
    assert patterns(["a[1]", "a[2]", "b[1]", "c[1]"], every) == ["a[*]", "b[1]", "c[1]"]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (Rule("crashed", 1, "a", ("t",)), "crashed t: 'crashed' cannot be expected"),
        (Rule("failed", 1, "", ("t",)), "failed t: expected/reasons.json has no reason ''"),
        (Rule("failed", 2, "a", ("t",)), "failed t: lists 1 tests and counts 2"),
    ],
)
def test_a_faulty_table_is_rejected(rule: Rule, fault: str):
    assert list(faults(Expected(0, (rule,)), {"a": Reason("a sentence", "a sign")})) == [fault]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_table_is_sound_and_names_a_reason_for_each_test_that_does_not_pass(suite):
    table = load(suite.table)
    assert table.keys() == set(suite.files)
    assert [fault for expected in table.values() for fault in faults(expected, reasons())] == []


def test_every_reason_has_a_sign():
    assert [key for key, reason in reasons().items() if not (reason.sentence and reason.sign)] == []


def test_every_reason_is_used():
    used = {rule.why for suite in SUITES for expected in load(suite.table).values() for rule in expected.others}
    assert reasons().keys() == used


def test_the_reference_has_the_figures_of_the_tables():
    """The rows of the table in the reference: the suite, its files, and passed, failed, errors and skipped tests."""
    lines = (ROOT / "docs" / "reference" / "emulator.md").read_text().splitlines()
    for suite in SUITES:
        found = totals(load(suite.table))
        skipped = found["skipped"] + found["xfailed"]
        figures = [len(suite.files), found["passed"], found["failed"], found["error"], skipped]
        (row,) = [line for line in lines if line.startswith(f"| `{suite.name}` |")]
        assert [int(cell) for cell in row.split("|")[3:8]] == figures


def test_a_journal_tells_which_test_has_begun_and_not_ended():
    lines = [
        '{"begun": "test_a"}',
        '{"ended": "test_a", "outcome": "passed", "reason": "", "evidence": ""}',
        '{"begun": "test_b"}',
    ]
    assert read_journal(lines) == ({"test_a": PASSED}, ["test_b"])


def run_text(folder: Path, text: str) -> dict[str, Outcome]:
    """Runs a file of tests with the plugin, without the emulator."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    return run_file(command, folder, os.environ, folder / "log")


def test_every_kind_of_outcome_is_recorded(tmp_path: Path):
    found = run_text(
        tmp_path,
        """
import subprocess
import pytest

@pytest.fixture
def broken():
    yield
    raise RuntimeError("at the end")

def test_passes(): pass
def test_fails():
    subprocess.run(["sh", "-c", "echo from a child >&2"])
    assert 1 == 2
def test_skips(): pytest.skip("a reason")
def test_cannot_end(broken): pass
@pytest.mark.xfail(reason="known")
def test_is_known(): assert 0
@pytest.mark.xfail(reason="known", strict=False)
def test_is_mended(): pass
""",
    )
    assert {test: outcome.outcome for test, outcome in found.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_cannot_end": "error",
        "test_is_known": "xfailed",
        "test_is_mended": "xpassed",
    }
    assert "assert 1 == 2" in found["test_fails"].reason
    assert "a reason" in found["test_skips"].reason
    assert "at the end" in found["test_cannot_end"].reason
    assert "from a child" in found["test_fails"].evidence
    assert found["test_passes"].evidence == ""


def test_a_crash_is_recorded_and_the_other_tests_still_run(tmp_path: Path):
    found = run_text(
        tmp_path,
        """
import os
def test_first(): pass
def test_crashes(): os.abort()
def test_exits(): os._exit(7)
def test_last(): pass
""",
    )
    assert found == {
        "test_first": PASSED,
        "test_crashes": Outcome("crashed", "killed by SIGABRT"),
        "test_exits": Outcome("crashed", "exit code 7"),
        "test_last": PASSED,
    }


def test_a_crash_behind_the_last_test_is_recorded(tmp_path: Path):
    found = run_text(tmp_path, "import atexit, os\ndef test_passes(): atexit.register(os.abort)\n")
    assert found == {"test_passes": PASSED, END_OF_PROCESS: Outcome("crashed", "killed by SIGABRT")}


def test_a_file_that_cannot_be_imported_is_an_error_of_the_whole_file(tmp_path: Path):
    found = run_text(tmp_path, "raise RuntimeError('broken')\n")
    assert found.keys() == {WHOLE_FILE}
    assert found[WHOLE_FILE].outcome == "error"
    assert "broken" in found[WHOLE_FILE].reason


def test_a_conftest_that_fails_is_an_error_of_the_whole_file(tmp_path: Path):
    (tmp_path / "conftest.py").write_text("raise RuntimeError('no driver')\n")
    found = run_text(tmp_path, "def test_a(): pass\n")
    assert found == {WHOLE_FILE: Outcome("error", "E   RuntimeError: no driver")}


def command_line(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "MEMLAKE_SUITES"}
    return subprocess.run(
        [sys.executable, "-m", "tests.emulator.suites", *map(str, arguments)],
        cwd=ROOT,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_folder_the_command_says_where_to_get_the_tests():
    done = command_line()
    assert done.returncode == 2
    assert how_to_get() in done.stderr


def test_a_missing_checkout_is_named_and_running_nothing_is_no_success(tmp_path: Path):
    done = command_line("--suites", tmp_path)
    assert done.returncode == 2
    for suite in SUITES:
        assert f"{suite.name}: not run: {tmp_path / suite.name} is not a checkout of {suite.repository}" in done.stdout


def test_an_unknown_name_is_rejected_with_the_known_ones():
    done = command_line("cuda-cores")
    assert done.returncode == 2
    assert "there is no suite or file cuda-cores; the suites are cuda-core, " in done.stderr


def test_a_run_compares_with_the_table_and_fails_by_what_differs(tmp_path: Path):
    """A checkout of another version: one test of the wrong number, in an environment that exists already."""
    environment = tmp_path / "environment" / "bin"
    environment.mkdir(parents=True)
    (environment / "pytest").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n')
    (environment / "pytest").chmod(0o755)
    folder = tmp_path / "cuda-core" / "cuda_core" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_host.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    results = tmp_path / "results.json"
    done = command_line(
        "cuda-core:tests/test_host.py",
        "--suites",
        tmp_path,
        "--json",
        results,
        MEMLAKE_SUITES_VENV_CUDA_PYTHON=str(environment.parent),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cuda-core: FAILED tests/test_host.py: unexpectedly failed: test_b" in done.stdout
    assert json.loads(results.read_text())["cuda-core"]["tests/test_host.py"]["test_a"] == ["passed", "", ""]
