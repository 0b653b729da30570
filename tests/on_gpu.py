"""Tries everything that can be tried on a real GPU, and writes one report: `on_gpu.py [LIBRARY] [--out FOLDER]`.

The conformance cases, the features of device 0, the costs of its driver's calls, and memlake's own tests of pools go
into one JSON file and one page of text. Both are for sending back. Without a usable driver the program says so in one
sentence and ends with 0: that is no failure of the project.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from helpers.abi_driver import Driver  # noqa: E402  (the line above makes it findable)
from helpers.abi_types import result_name  # noqa: E402


def why_unusable(library: str) -> str | None:
    """None if there is a driver with at least one device."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    driver = Driver(library)
    if (code := driver.cuInit(0)) != 0:
        return f"cuInit answered {result_name(code)}"
    if driver.device_count() == 0:
        return "the driver has no device"
    return None


def found_anywhere(library: str) -> str:
    """Returns a name of the driver that means the same in each folder: a name with a slash is a path, as for dlopen."""
    return str(Path(library).absolute()) if "/" in library else library


def run_pytest(arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Runs tests in a process of their own: a real driver may end it."""
    command = [sys.executable, "-m", "pytest", "-c", str(HERE.parent / "pyproject.toml"), "-p", "no:cacheprovider"]
    subprocess.run([*command, "-q", *arguments], cwd=folder, env=os.environ | environment, check=False)


def conformance(library: str, folder: Path, cases: list[str]) -> dict[str, Any]:
    """What the driver answered to the cases of the contract."""
    run_pytest([*cases, "--driver", library, "--report"], folder, {})
    for file in folder.glob("conformance-*.json"):
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return told
    return {}


def suite(library: str, folder: Path) -> dict[str, str]:
    """The outcome of each test of pools. A test that is missing took the process with it."""
    file = folder / "suite.xml"
    run_pytest([str(HERE / "hardware"), f"--junitxml={file}"], folder, {"MEMLAKE_TEST_DRIVER": library})
    outcomes: dict[str, str] = {}
    if not file.exists():
        return {"tests/hardware": "error: the process ended before its report"}
    for case in Xml.parse(file).iter("testcase"):
        problems = [child for child in case if child.tag in ("failure", "error", "skipped")]
        words = {"failure": "failed", "error": "error", "skipped": "skipped"}
        outcome = f"{words[problems[0].tag]}: {problems[0].get('message', '')[:300]}" if problems else "passed"
        outcomes[case.get("name", "?")] = outcome
    return outcomes


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="libcuda.so.1")
    parser.add_argument("--out", type=Path, default=Path.cwd(), help="the folder of the report")
    cases_folder = str(HERE / "emulator" / "contract")
    parser.add_argument("--cases", nargs="+", default=[cases_folder], help="the conformance cases to run")
    options = parser.parse_args(arguments)
    # The tests run in a folder of their own, where a relative path would name another file.
    library = found_anywhere(options.library)
    cases = [str(Path(case).absolute()) for case in options.cases]
    reason = why_unusable(library)
    if reason:
        print(f"There is no CUDA driver to test on here: {reason}.")
        return 0
    from memlake import devices
    from memlake.hardware import compare_report, measure

    with tempfile.TemporaryDirectory() as folder:
        contract = conformance(library, Path(folder), cases)
        tested = suite(library, Path(folder))
    report = dataclasses.replace(measure(devices(library)[0]), conformance=contract, suite=tested)
    page = f"{report.to_text()}\n\n{compare_report(report).to_text()}\n"
    json_file = options.out / f"{report.file_stem}.json"
    page_file = json_file.with_suffix(".txt")
    report.save(json_file)
    page_file.write_text(page, encoding="utf-8")
    print(page)
    print(f"The report is in {json_file} and {page_file}. docs/guides/on_real_hardware.md says how to send it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
