import pytest

from memlake import ConfigError, DriverError, driver, vmm


def test_calls_are_counted_by_their_cuda_names(gpu):
    with driver.counting(gpu) as counts:
        segment = vmm.Segment.create(gpu, "4MiB")
        inside = dict(counts.calls)
    segment.close()
    assert inside["cuMemCreate"] == inside["cuMemMap"] == 2
    assert counts["cuMemSetAccess"] == 1
    assert counts["cuMemUnmap"] == 0
    assert dict(counts.calls) == inside
    assert counts.total == sum(inside.values())


def test_time_is_modelled_from_the_cost_table(gpu):
    gpu.synchronize()
    with driver.counting(gpu) as counts:
        vmm.Segment.create(gpu, "4MiB").close()
    # Two chunks of 2 MiB: create 30 + 2 per MiB each, reserve and free 3 each, map 2 each, access 36 for each handle,
    # unmap 30 for each handle, release 10 each.
    assert counts.modelled_us == 2 * (30 + 4) + 2 * 3 + 2 * 2 + 2 * 36 + 2 * 30 + 2 * 10
    assert "cuMemCreate" in repr(counts)


def test_blocks_can_be_nested(gpu):
    with driver.counting(gpu) as outer:
        chunk = vmm.create(gpu, "2MiB")
        with driver.counting(gpu) as inner:
            chunk.close()
    assert (inner["cuMemCreate"], inner["cuMemRelease"]) == (0, 1)
    assert (outer["cuMemCreate"], outer["cuMemRelease"]) == (1, 1)


def test_the_nth_call_fails_with_the_code_asked_for(gpu):
    with driver.failing(gpu, call="cuMemCreate", nth=2, code=999):
        first = vmm.create(gpu, "2MiB")
        with pytest.raises(DriverError) as caught:
            vmm.create(gpu, "2MiB")
        third = vmm.create(gpu, "2MiB")
    assert (caught.value.call, caught.value.code) == ("cuMemCreate", 999)
    assert first.is_open
    assert third.is_open


def test_any_call_can_fail(gpu):
    gpu.synchronize()
    with driver.failing(gpu, nth=1), pytest.raises(DriverError) as caught:
        vmm.create(gpu, "2MiB")
    assert caught.value.code == 2


def test_leaving_the_block_forgets_the_failure(gpu):
    with driver.failing(gpu, call="cuMemCreate"):
        pass
    vmm.create(gpu, "2MiB")


@pytest.mark.parametrize("options", [{"nth": 0}, {"nth": True}, {"code": 0}, {"code": "2"}, {"call": "cuNoSuchCall"}])
def test_a_failure_that_makes_no_sense_is_refused(gpu, options):
    with pytest.raises(ConfigError), driver.failing(gpu, **options):
        pass
