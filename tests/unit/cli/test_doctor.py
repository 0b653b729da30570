import json
import re

import pytest

import memlake
from helpers.processes import assert_ends_well
from memlake.hardware import Finding, Health


def test_a_machine_without_a_gpu_is_fine(memlake_command):
    done = memlake_command("doctor", MEMLAKE_DRIVER="")
    assert (done.returncode, done.stderr) == (0, "")
    assert "stitched a range over two emulated GPUs" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("memlake works here")


def test_json_has_every_finding(memlake_command):
    text = json.loads(memlake_command("doctor", "--json").stdout)
    assert text["works"] is True
    topics = [finding["topic"] for finding in text["findings"]]
    assert list(dict.fromkeys(topics)) == ["memlake", "driver", "frameworks", "extras", "system"]
    names = {finding["name"] for finding in text["findings"]}
    assert {"python", "native core", "emulator at work", "torch", "cupy", "vm.max_map_count", "open files"} <= names


def test_a_driver_that_cannot_be_loaded_is_named(memlake_command):
    done = memlake_command("doctor", "--json", MEMLAKE_DRIVER="/no/such/driver.so")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0
    assert findings["/no/such/driver.so"]["state"] == "note"
    assert "MEMLAKE_DRIVER" in findings["/no/such/driver.so"]["advice"]


def test_devices_of_a_driver_are_listed(memlake_command):
    settings = {"MEMLAKE_DRIVER": memlake.emulator_library(), "MEMLAKE_EMULATOR": "devices=2,memory=4GiB"}
    done = memlake_command("doctor", "--json", **settings)
    findings = {finding["name"]: finding["value"] for finding in json.loads(done.stdout)["findings"]}
    assert "memlake's emulator" in findings[memlake.emulator_library()]
    assert "4 GiB" in findings["emulated device 1"]


def test_an_emulated_device_is_no_gpu(memlake_command):
    settings = {"MEMLAKE_DRIVER": memlake.emulator_library(), "MEMLAKE_EMULATOR": "memory=128MiB"}
    done = memlake_command("doctor", **settings)
    said = "memlake works here, on emulated GPUs; the driver of this process is memlake's emulator."
    assert done.stdout.splitlines()[-1] == said
    gpu = Health((Finding("driver", "device 0", "ok", "NVIDIA A100, 80 GiB"),))
    assert gpu.sentence == "memlake works here, on the GPU and on emulated ones."


@pytest.mark.parametrize(
    "variable",
    [
        {"MEMLAKE_FEATURES": "rdmaa=no"},
        {"MEMLAKE_FEATURES": "rdmaa=no", "MEMLAKE_EMULATOR": "memory=128MiB"},
        {"MEMLAKE_EMULATOR": "memory=much"},
        {"MEMLAKE_HARDWARE": "wsl3"},
    ],
)
def test_a_variable_that_is_wrong_is_named_and_not_the_installation(memlake_command, variable):
    done = memlake_command("doctor", MEMLAKE_DRIVER=memlake.emulator_library(), **variable)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = " ".join(done.stdout.split())
    assert "memlake does not work here" in said
    assert re.search(f"(Correct or unset|Does it work without) {next(iter(variable))}", said)
    assert "nstall memlake again" not in said


def test_the_machine_of_the_environment_does_not_break_the_emulator(memlake_command):
    done = memlake_command("doctor", "--json", MEMLAKE_DRIVER="", MEMLAKE_HARDWARE="no-vmm")
    found = json.loads(done.stdout)
    assert found["works"] is True
    assert {"emulated machine"} <= {finding["name"] for finding in found["findings"]}


def test_advice_about_features_names_the_devices_once(memlake_command):
    settings = {"MEMLAKE_DRIVER": memlake.emulator_library(), "MEMLAKE_EMULATOR": "devices=2,memory=128MiB"}
    said = " ".join(memlake_command("doctor", **settings).stdout.split())
    assert said.count("Without it") == 1
    assert 'device 0, device 1: fabric_handles: Without it handle_type="fabric" becomes "posix_fd".' in said


def test_advice_about_features_fits_the_device(memlake_command):
    def said(lacks):
        settings = {"MEMLAKE_DRIVER": memlake.emulator_library(), "MEMLAKE_EMULATOR": f"memory=128MiB,lacks={lacks}"}
        return " ".join(memlake_command("doctor", **settings).stdout.split())

    assert "device 0: virtual_memory: Without it pools use plain allocations" in said("vmm")
    assert "lake maps" not in said("vmm")
    assert 'handle_type="fabric" becomes None, and export() is refused' in said("export")
    assert 'becomes "posix_fd"' not in said("export")


def test_no_framework_is_imported():
    assert "works here" in assert_ends_well("""
        import sys
        from memlake.cli import main
        assert main(["doctor"]) == 0
        assert not {"torch", "cupy", "numba", "rmm", "cuda"} & set(sys.modules)
    """)


def test_what_is_broken_is_said_first():
    broken = Health((Finding("memlake", "emulator", "broken", "it is gone", "Install it."),))
    assert not broken.is_good
    assert broken.sentence == "memlake does not work here: emulator: it is gone. Install it."
    assert broken.to_json()["works"] is False
