import pytest

from memlake import DriverError, driver, emulator, vmm


def test_a_dropped_object_that_cannot_go_back_is_a_warning(gpu):
    chunk = vmm.create(gpu, "2MiB")
    with (
        driver.failing(gpu, call="cuMemRelease", code=999),
        pytest.warns(ResourceWarning, match="cuMemRelease answered 999"),
    ):
        del chunk


def test_what_was_lost_with_its_context_is_no_warning(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    stream = gpu.create_stream()
    emulator.launch(stream, "bad work", writes=[(4096, 8)])
    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
        stream.sync()
    del stream


def test_a_dropped_object_that_goes_back_is_no_warning(gpu):
    chunk = vmm.create(gpu, "2MiB")
    del chunk
    assert gpu.free_memory == gpu.total_memory
