import pytest

from memlake import DriverError, Pool, driver, emulator, vmm


def test_a_dropped_object_that_cannot_go_back_is_a_warning(gpu):
    chunk = vmm.create(gpu, "2MiB")
    with (
        driver.failing(gpu, call="cuMemRelease", code=999),
        pytest.warns(ResourceWarning, match="cuMemRelease answered 999"),
    ):
        del chunk


def test_a_call_of_the_pool_itself_is_not_said_to_be_for_a_dropped_object_only(gpu):
    with Pool(gpu) as pool:
        for buffer in [pool.allocate("4MiB") for _ in range(4)]:
            buffer.close()
        with (
            driver.failing(gpu, call="cuMemUnmap", code=999),
            pytest.warns(ResourceWarning, match=r"cuMemUnmap answered 999: .* or for memlake itself"),
        ):
            pool.trim()


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
