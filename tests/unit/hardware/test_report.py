"""Hardware reports: measured on the emulator, saved, compared with what memlake assumes, and used as costs."""

import json
import math
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

import memlake
from memlake.hardware import HardwareReport, compare_report, measure
from memlake.hardware.differences import assumed_features, assumed_granularity
from memlake.replaying.costs import default_costs, load_costs

MIB = 2**20
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def report():
    """One report for all tests that read or change a copy of it. It cannot be changed itself."""
    with memlake.emulate(memory="256MiB", hardware="usual") as gpus:
        return measure(gpus[0], repeats=1)


def as_assumed(report):
    """The report with the costs of the model, and copies that are equally fast."""
    copies = tuple(replace(copy, bytes_per_second=1e9) for copy in report.copies)
    return replace(report, costs=default_costs(), copies=copies)


def found(report):
    return {(difference.topic, difference.name) for difference in compare_report(report).found}


def test_a_report_has_features_costs_and_speeds(report):
    assert report.is_emulated
    assert report.features["virtual_memory"]["has"] is True
    assert [row.handle_bytes for row in report.calls] == [2 * MIB, 20 * MIB]  # 200 MiB are more than a quarter
    assert all(value >= 0 for value in report.costs.values())
    assert set(report.costs) == set(default_costs())
    assert [copy.handle_bytes for copy in report.copies] == [0, 2 * MIB, 20 * MIB]
    assert all(copy.bytes_per_second > 0 for copy in report.copies)


def test_measuring_leaves_nothing_behind(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB")
    measure(gpu, repeats=1)
    assert gpu.free_memory == gpu.total_memory


def test_a_device_without_virtual_memory_is_measured_too(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", lacks=["vmm"])
    report = measure(gpu, repeats=1)
    assert report.granularity is None
    assert report.calls == ()
    assert set(report.costs) == {"alloc", "free"}
    assert ("feature", "virtual_memory") in found(report)


def test_a_report_is_the_same_after_saving_and_loading(report, tmp_path):
    file = tmp_path / "gpu.json"
    report.save(file)
    assert HardwareReport.load(file) == report


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "memlake hardware report 1"}'])
def test_a_file_that_is_no_report_is_refused(tmp_path, content):
    file = tmp_path / "gpu.json"
    file.write_text(content)
    with pytest.raises(memlake.ConfigError, match="report"):
        HardwareReport.load(file)


def damaged(report, file, where, value):
    """Saves the report with one value replaced; the last part of `where` is its key."""
    content = report.to_json()
    inner = content
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("value", ["2.5", -1.0, math.nan, math.inf, True, None, pytest.param(10**400, id="huge")])
def test_a_report_with_a_cost_that_is_no_cost_is_refused_as_for_replays(report, tmp_path, value):
    file = tmp_path / "gpu.json"
    damaged(report, file, ("costs", "map"), value)
    with pytest.raises(
        memlake.ConfigError, match=r"the cost 'map' in .* is not a number of microseconds"
    ) as for_replays:
        load_costs(file)
    with pytest.raises(memlake.ConfigError) as for_comparisons:
        HardwareReport.load(file)
    assert str(for_comparisons.value) == str(for_replays.value)
    ran = run_memlake("doctor", "--compare", str(file))
    assert ran.returncode == 2
    assert "the cost 'map'" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("copies", 0, "bytes_per_second"), "fast"),
        (("calls", 0, "map"), math.nan),
        (("plain", "alloc"), -1),
        (("granularity",), "2MiB"),
        (("driver_version",), "13.0"),
        (("features", "rdma", "has"), "yes"),
        (("features", "rdma"), {}),
        (("features",), []),
        (("suite",), {"test_a": 1}),
        (("conformance",), {"differences": [1]}),
        (("system",), None),
    ],
)
def test_a_report_with_a_damaged_value_is_refused(report, tmp_path, where, value):
    file = tmp_path / "gpu.json"
    damaged(report, file, where, value)
    with pytest.raises(memlake.ConfigError, match="damaged"):
        HardwareReport.load(file)


def test_a_report_that_is_as_assumed_has_no_differences(report):
    assert found(as_assumed(report)) == set()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"lacks": ["rdma_access"]}, "rdma"),
        ({"lacks": ["export"]}, "file_descriptors"),
        ({"aliasing": "whole"}, "partial_mapping"),
        ({"lacks": ["shared_bytes"]}, "shared_bytes"),
        ({"lacks": ["spanning_copies"]}, "spanning_copies"),
        ({"lacks": (), "fabric": "works"}, "fabric_handles"),
    ],
)
def test_each_feature_that_differs_is_found(memlake_emulator, settings, name):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", hardware="usual", **settings)
    assert found(as_assumed(measure(gpu, repeats=1))) == {("feature", name)}


def test_the_assumed_device_is_the_usual_one_of_the_emulator():
    program = """
        import json, memlake
        with memlake.emulate(memory="256MiB", hardware="usual") as (usual,):
            features = {name: feature.has for name, feature in usual.features.items()}
            print(json.dumps([features, usual.granularity]))
    """
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MEMLAKE_")}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ran = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [assumed_features(), assumed_granularity()]


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("rdma", {"MEMLAKE_FEATURES": "rdma=no"}),
        ("host_memory", {"MEMLAKE_EMULATOR": "memory=128MiB,driver=12020"}),
        ("rdma", {"MEMLAKE_HARDWARE": "no-rdma"}),
    ],
)
def test_the_environment_does_not_change_what_is_assumed(report, tmp_path, name, environment):
    lacking = {"has": False, "source": "trial", "reason": "it was refused"}
    file = tmp_path / "gpu.json"
    usual = as_assumed(report)
    replace(usual, features=usual.features | {name: usual.features[name] | lacking}).save(file)
    environment = environment | {"MEMLAKE_DRIVER": memlake.emulator_library()}
    compared = run_memlake("doctor", "--compare", str(file), "--json", **environment)
    assert [row["name"] for row in json.loads(compared.stdout)["differences"]] == [name]


def test_without_virtual_memory_nothing_is_said_about_what_lake_does(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="128MiB", lacks=["vmm"])
    rows = {row.name: row.meaning for row in compare_report(measure(gpu, repeats=1)).found if row.topic == "feature"}
    assert "policy caching" in rows.pop("virtual_memory")
    assert set(rows.values()) == {"there is no virtual memory management"}


def test_a_cost_that_differs_is_found_in_both_directions(report):
    for factor in (2.5, 0.3):
        for name, cost in default_costs().items():
            changed = as_assumed(report)
            changed = replace(changed, costs=changed.costs | {name: cost * factor})
            assert found(changed) == {("cost", name)}


def test_slow_stitched_memory_another_granularity_and_failed_tests_are_found(report):
    usual = as_assumed(report)
    slow = tuple(replace(c, bytes_per_second=8e8) if c.handle_bytes == 2 * MIB else c for c in usual.copies)
    assert found(replace(usual, copies=slow)) == {("copy", "stitched in handles of 2 MiB")}
    assert found(replace(usual, granularity=4 * MIB)) == {("device", "granularity")}
    row = {"case": 38, "label": "U", "what": "a prefix", "expected": "0", "got": "1"}
    assert found(replace(usual, conformance={"differences": [row]})) == {("contract", "case 38: a prefix")}
    row = {"case": 0, "label": "O/I", "what": "a prefix", "expected": "0", "got": "1", "test": "test_of_prefixes"}
    (difference,) = compare_report(replace(usual, conformance={"differences": [row]})).found
    assert difference.name == "test_of_prefixes: a prefix"
    assert difference.meaning == "the emulator answers as assumed, which is observed on another driver or inferred"
    tests = {"test_a": "passed", "test_b": "failed: it was 3", "test_c": "skipped: no device"}
    assert found(replace(usual, suite=tests)) == {("suite", "test_b")}


def test_the_pages_name_what_was_found(report):
    page = report.to_text()
    assert "virtual_memory" in page
    assert "GB/s" in page
    differs = compare_report(replace(as_assumed(report), granularity=4 * MIB)).to_text()
    assert "granularity" in differs
    assert "differs in 1 points" in differs
    assert "as the emulator and the cost model assume" in compare_report(as_assumed(report)).to_text()


def run_memlake(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "memlake", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_doctor_measures_and_compares(tmp_path):
    file = tmp_path / "gpu.json"
    emulated = {
        "MEMLAKE_DRIVER": memlake.emulator_library(),
        "MEMLAKE_EMULATOR": "memory=128MiB,lacks=rdma_access+export",
    }
    measured = run_memlake("doctor", "--measure", str(file), **emulated)
    assert measured.returncode == 0, measured.stderr
    compared = run_memlake("doctor", "--compare", str(file), "--json")
    assert compared.returncode == 1, compared.stderr
    told = {row["name"] for row in json.loads(compared.stdout)["differences"] if row["topic"] == "feature"}
    assert told == {"rdma", "file_descriptors"}
    missing = run_memlake("doctor", "--measure", str(file), "--device", "7", **emulated)
    assert missing.returncode == 2
    assert "there is no device '7'" in missing.stderr


def test_the_doctor_shows_the_features_of_each_device():
    emulated = {"MEMLAKE_DRIVER": memlake.emulator_library(), "MEMLAKE_EMULATOR": "memory=128MiB,lacks=vmm"}
    ran = run_memlake("doctor", "--json", **emulated)
    assert ran.returncode == 0, ran.stderr
    rows = {row["name"]: row for row in json.loads(ran.stdout)["findings"] if row["topic"] == "device 0"}
    assert set(rows) == set(memlake.device.features.without_of())
    assert rows["virtual_memory"]["state"] == "note"
    assert "caching" in rows["virtual_memory"]["advice"]


def test_replays_use_the_costs_of_a_report(report, tmp_path):
    plain = tmp_path / "plain.json"
    report.save(plain)
    doubled = tmp_path / "doubled.json"
    replace(report, costs={name: 2 * cost for name, cost in default_costs().items()}).save(doubled)
    command = ["replay", "train_moe", "--policy", "caching", "--capacity", "80GiB", "--json"]
    usual = json.loads(run_memlake(*command).stdout)["modelled_driver_ms"]
    costly = json.loads(run_memlake(*command, "--costs", str(doubled)).stdout)["modelled_driver_ms"]
    assert costly == pytest.approx(2 * usual)
    assert json.loads(run_memlake(*command, MEMLAKE_COSTS=str(doubled)).stdout)["modelled_driver_ms"] == costly
    for name in ("compare", "fit"):
        ran = run_memlake(name, "train_moe", "--policy", "caching", "--json", "--costs", str(plain), "--help")
        assert "--costs" in ran.stdout


@pytest.mark.parametrize("content", ["x", "[]", "{}", '{"costs": {"walk": 1}}', '{"map": -1}', '{"map": "2"}'])
def test_costs_that_make_no_sense_are_refused(tmp_path, content):
    file = tmp_path / "costs.json"
    file.write_text(content)
    with pytest.raises(memlake.ConfigError, match="cost"):
        load_costs(file)


def test_one_command_makes_one_report_with_everything(tmp_path):
    """As `make test-gpu DRIVER=relative/path`, with the emulator as the driver and a part of the conformance cases."""
    here = Path(os.path.relpath(ROOT, tmp_path))
    library = os.path.relpath(memlake.emulator_library(), tmp_path)
    command = [sys.executable, str(here / "tests" / "on_gpu.py"), library, "--out", "."]
    command += ["--cases", str(here / "tests" / "emulator" / "contract" / "test_granularity.py")]
    seeded = {"MEMLAKE_EMULATOR": "devices=2,memory=512MiB,lacks=rdma_access+spanning_copies"}
    ran = subprocess.run(command, env=os.environ | seeded, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (file,) = tmp_path.glob("hardware-*.json")
    report = HardwareReport.load(file)
    assert report.conformance["rows"]
    assert set(report.suite.values()) <= {"passed"} or all(
        outcome.startswith(("passed", "skipped")) for outcome in report.suite.values()
    ), report.suite
    assert len(report.suite) > 10
    assert {name for topic, name in found(report) if topic == "feature"} == {"rdma", "spanning_copies"}
    assert "spanning_copies" in file.with_suffix(".txt").read_text()
