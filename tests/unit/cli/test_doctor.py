import json

import memlake
from helpers.processes import assert_ends_well
from memlake.reports.health import Finding, Health


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
    assert "4 GiB" in findings["device 1"]


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
