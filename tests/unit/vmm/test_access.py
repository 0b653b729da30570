import pytest

import memlake
from memlake import ConfigError, DriverError, vmm
from memlake.vmm.access import (
    device_list,
    flags_at,
    flags_of,
    rights_of,
    rights_of_anybody,
    same_driver,
)


@pytest.mark.parametrize(("rights", "flags"), [("none", 0), ("r", 1), ("rw", 3)])
def test_rights_are_words_here_and_flags_at_the_driver(rights, flags):
    assert flags_of(rights) == flags
    assert rights_of(flags) == rights


def test_one_device_or_several_are_meant(gpus):
    assert device_list(gpus[0]) == [gpus[0]]
    assert device_list(iter(gpus)) == list(gpus)
    with pytest.raises(ConfigError, match="expected a memlake Device, got None"):
        device_list([None])


def test_devices_of_one_driver_go_together(gpus):
    assert len(same_driver(gpus[0], gpus)) == 2


def test_who_cannot_reach_the_memory_gets_no_access():
    with memlake.emulate(devices=2, memory="64MiB", peers="none") as (a, b), vmm.Segment.create(a, "2MiB") as segment:
        with pytest.raises(DriverError) as caught:
            segment.set_access(b, "rw")
        assert caught.value.code == 217
        assert segment.status == "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"
        assert segment.access(b) == "none"


def test_the_cpu_may_do_what_at_least_one_device_may(gpus):
    a, b = gpus
    segment = vmm.Segment.create(a, "4MiB", access=())
    places = [segment.address, segment.address + 2 * 2**20]
    assert rights_of_anybody(places, gpus) == "none"
    segment.set_access(a, "r")
    assert rights_of_anybody(places, gpus) == "r"
    segment.set_access(b, "rw")
    assert rights_of_anybody(places, gpus) == "rw"
    assert flags_at(segment.address, gpus) == {a: 1, b: 3}
    assert flags_at(segment.address, [a]) == {a: 1}


def test_a_closed_device_has_no_access_any_more(gpus):
    a, b = gpus
    segment = vmm.Segment.create(a, "2MiB", access=gpus)
    b.close()
    assert flags_at(segment.address, gpus) == {a: 3}
    segment.numpy()[:] = 1
