"""What becomes of a difference: it fails on the emulator, is listed on a real driver, and the report tells of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emulator.contract.expectations import Expectations
from emulator.contract.report import Report
from helpers.abi_types import Result

if TYPE_CHECKING:
    from helpers.abi_driver import Driver

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]


def test_a_difference_fails_at_once_on_the_emulator(driver: Driver) -> None:
    expect = Expectations(16, driver, is_report=False)
    with pytest.raises(AssertionError, match=r"case 16: alignment 3: got 0 \(SUCCESS\), the contract expects 2 \(OUT"):
        expect("alignment 3", Result.SUCCESS, Result.OUT_OF_MEMORY, "O")


def test_a_report_goes_on_and_fails_at_the_end(driver: Driver) -> None:
    expect = Expectations(16, driver, is_report=True)
    expect("alignment 3", Result.SUCCESS, Result.OUT_OF_MEMORY, "O")
    expect("size 0", Result.OUT_OF_MEMORY, Result.OUT_OF_MEMORY, "O")
    with pytest.raises(AssertionError, match="alignment 3"):
        expect.verdict()
    expect.verdict()  # told once


@pytest.mark.parametrize("label", ["U", "O/U"])
def test_what_the_contract_does_not_know_never_fails(driver: Driver, label: str) -> None:
    expect = Expectations(52, driver, is_report=True)
    expect("A on half of a mapping", Result.SUCCESS, Result.INVALID_VALUE, label)
    expect.verdict()
    assert [row.agrees for row in expect.rows] == [False]


def test_the_report_is_a_table_and_a_file(driver: Driver, tmp_path: Path) -> None:
    expect = Expectations(52, driver, is_report=True)
    expect("A on half of a mapping", Result.SUCCESS, Result.INVALID_VALUE, "U")
    expect("A on all of it", Result.SUCCESS, Result.SUCCESS, "D")
    report = Report("NVIDIA A100-SXM4-80GB", 12080)
    report.rows.update(expect.rows)
    report.note_outcome("test_case_052_part_of_a_mapping", "started", "")
    assert report.lines()[2].split() == [
        "52",
        "U",
        "1",
        "(INVALID_VALUE)",
        "0",
        "(SUCCESS)",
        "A",
        "on",
        "half",
        "of",
        "a",
        "mapping",
    ]
    path = report.write(tmp_path)
    assert path.name == "conformance-nvidia-a100-sxm4-80gb-12.8.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    assert [row["what"] for row in told["differences"]] == ["A on half of a mapping"]
    assert told["tests"]["test_case_052_part_of_a_mapping"]["outcome"] == "started"


def test_a_question_of_no_numbered_case_has_the_name_of_its_test(driver: Driver) -> None:
    for case, test in ((0, "test_the_size"), (16, "")):
        expect = Expectations(case, driver, is_report=True, test="test_the_size")
        expect.equal("the size", 3, 4, "I")
        assert [row.test for row in expect.rows] == [test]
        report = Report("GPU", 13000)
        report.rows.update(expect.rows)
        assert report.lines()[-1].split()[0] == (test or "16")


@pytest.mark.emulator_only("it asks the emulator")
@pytest.mark.parametrize("devices", ["", "devices=2,memory=512MiB"], ids=["added", "of the environment"])
def test_the_emulator_has_a_report_without_differences(driver: Driver, tmp_path: Path, devices: str) -> None:
    command = [sys.executable, "-m", "pytest", "-c", str(PROJECT / "pyproject.toml"), "-p", "no:cacheprovider"]
    command += [str(HERE / "test_granularity.py"), f"{HERE / 'test_checkpoints.py'}::test_rule_checkpoint_of_itself"]
    command += [f"{HERE / 'test_managed_pools.py'}::test_the_type_of_a_pool_shows_in_is_managed"]
    command += ["--driver", driver.library, "--report"]
    environment = os.environ | {"MEMLAKE_EMULATOR": devices}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no difference from the contract" in ran.stdout
    (file,) = tmp_path.glob("conformance-emulator-*.json")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert told["differences"] == []
    assert {row["case"] for row in told["rows"]} == {0, 10, 11, 12, 13}


def test_without_a_driver_one_sentence_says_so() -> None:
    command = [sys.executable, str(HERE.parents[1] / "on_gpu.py"), "libnosuchcuda.so.1"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert ran.stderr == ""
    (sentence,) = ran.stdout.splitlines()
    assert sentence.startswith("There is no CUDA driver to test on here: ")
    assert "libnosuchcuda.so.1" in sentence
