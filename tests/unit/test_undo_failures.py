import pytest

from memlake import driver, vmm


def test_a_dropped_object_that_cannot_go_back_is_a_warning(gpu):
    chunk = vmm.create(gpu, "2MiB")
    with (
        driver.failing(gpu, call="cuMemRelease", code=999),
        pytest.warns(ResourceWarning, match="cuMemRelease answered 999"),
    ):
        del chunk


def test_a_dropped_object_that_goes_back_is_no_warning(gpu):
    chunk = vmm.create(gpu, "2MiB")
    del chunk
    assert gpu.free_memory == gpu.total_memory
