import gc

import pytest

import memlake
from helpers.pictures import picture
from memlake import ClosedError, ConfigError, ContractViolation, DriverError, InvalidFree, driver, emulator, vmm
from memlake.vmm import Segment

GRANULE = 2 * 2**20


def test_a_segment_has_everything_the_tutorial_lists(gpu):
    segment = Segment.create(gpu, 4 * GRANULE)
    assert [(chunk.nbytes, chunk.device, chunk.is_free) for chunk in segment.chunks] == [(GRANULE, gpu, True)] * 4
    assert segment.address % GRANULE == 0
    assert segment.nbytes == 4 * GRANULE
    assert segment.granularity == GRANULE
    assert segment.device is gpu
    assert segment.devices == [gpu]
    assert segment.status == "CUDA_SUCCESS"
    assert (segment.free_chunks, segment.used_chunks) == (4, 0)
    assert not segment.is_fused
    assert not segment.is_released
    assert repr(segment) == f"Segment(8 MiB at {segment.address:#x}, 4 chunks of device {gpu.ordinal})"


def test_its_own_device_has_access_unless_told_otherwise(gpus):
    assert [Segment.create(gpus[0], GRANULE).access(gpu) for gpu in gpus] == ["rw", "none"]
    assert [Segment.create(gpus[0], GRANULE, access=gpus).access(gpu) for gpu in gpus] == ["rw", "rw"]
    assert Segment.create(gpus[0], GRANULE, access=()).access(gpus[0]) == "none"


def test_the_sizes_of_chunks_can_be_chosen(gpu):
    sizes = [2 * GRANULE, GRANULE, 3 * GRANULE]
    segment = Segment.create(gpu, "12MiB", chunk_size=sizes)
    assert [chunk.nbytes for chunk in segment.chunks] == sizes
    assert [segment.offset_of(chunk) for chunk in segment.chunks] == [0, 2 * GRANULE, 3 * GRANULE]


def test_the_status_is_the_result_of_the_last_driver_call(gpu):
    segment = Segment.create(gpu, GRANULE)
    with driver.failing(gpu, call="cuMemSetAccess", code=999), pytest.raises(DriverError):
        segment.set_access(gpu, "r")
    assert segment.status == "CUDA_ERROR_UNKNOWN"
    segment.fill(0)
    assert segment.status == "CUDA_SUCCESS"


def test_chunks_are_taken_and_given_back(gpu):
    segment = Segment.create(gpu, 4 * GRANULE)
    assert segment.take(0, segment.chunks[2]) == [segment.chunks[0], segment.chunks[2]]
    assert (segment.free_chunks, segment.used_chunks) == (2, 2)
    assert segment.chunks[0].user is segment
    segment.give_back(0)
    assert [chunk.is_free for chunk in segment.chunks] == [True, True, False, True]
    segment.take(-1)
    assert not segment.chunks[3].is_free
    segment.close()


def test_a_chunk_is_taken_once(gpu):
    segment = Segment.create(gpu, 4 * GRANULE)
    segment.take(1)
    with pytest.raises(ConfigError, match=r"used by Segment\("):
        segment.take(0, 1)
    with pytest.raises(ConfigError, match="given twice"):
        segment.take(2, 2)
    assert segment.used_chunks == 1


def test_only_what_was_taken_is_given_back(gpu):
    segment = Segment.create(gpu, 4 * GRANULE)
    segment.take(0)
    with pytest.raises(InvalidFree, match="it is free"):
        segment.give_back(0, 1)
    assert segment.used_chunks == 1


@pytest.mark.parametrize("chunk", [4, -5, None, "first"])
def test_only_its_own_chunks_are_taken(gpu, chunk):
    segment = Segment.create(gpu, 4 * GRANULE)
    with pytest.raises(ConfigError):
        segment.take(chunk)
    with pytest.raises(ConfigError, match="is not in"):
        segment.take(vmm.create(gpu, GRANULE))
    with pytest.raises(ConfigError, match="is not in"):
        segment.offset_of(vmm.create(gpu, GRANULE))


def test_free_chunks_of_two_devices_become_one_range(gpus):
    homes = [Segment.create(gpu, 4 * GRANULE, access=gpus) for gpu in gpus]
    pieces = [homes[0].chunks[0], homes[1].chunks[3], homes[0].chunks[2]]
    fused = vmm.stitch(pieces)
    assert fused.nbytes == 3 * GRANULE
    assert fused.is_fused
    assert fused.devices == list(gpus)
    assert [fused.access(gpu) for gpu in gpus] == ["rw", "rw"]
    assert (fused.free_chunks, fused.used_chunks) == (0, 3)
    assert [home.free_chunks for home in homes] == [2, 3]
    for index, chunk in enumerate(pieces):
        fused.fill(index + 1, offset=index * GRANULE, nbytes=GRANULE)
        home = chunk.home
        seen = home.numpy()[home.offset_of(chunk) :][:GRANULE]
        assert (seen == index + 1).all()
    del seen
    fused.close()
    assert [home.free_chunks for home in homes] == [4, 4]
    assert all(chunk.is_open for chunk in pieces)


def test_stitching_a_used_chunk_names_its_user(gpu):
    home = Segment.create(gpu, 4 * GRANULE)
    fused = vmm.stitch(home.chunks[:2])
    before = picture([gpu])
    with pytest.raises(ConfigError, match=f"used by Segment.*{fused.address:#x}"):
        vmm.stitch([home.chunks[2], home.chunks[1]])
    with pytest.raises(ConfigError, match="used by"):
        home.take(0)
    with pytest.raises(ConfigError, match="given twice"):
        vmm.stitch([home.chunks[3]] * 2)
    assert picture([gpu]) == before
    assert home.free_chunks == 2


def test_chunks_made_by_hand_can_be_stitched(gpu):
    chunks = [vmm.create(gpu, GRANULE) for _ in range(3)]
    with vmm.stitch(iter(chunks)) as fused:
        assert fused.is_fused
        with pytest.raises(InvalidFree, match="belongs to"):
            chunks[0].close()
        with pytest.raises(InvalidFree, match="uses it until it is closed"):
            fused.give_back(0)
    for chunk in chunks:
        chunk.close()
    assert gpu.ledger().is_empty


@pytest.mark.parametrize("chunks", [[], [None], [0], "ab"])
def test_only_chunks_can_be_stitched(gpu, chunks):
    with pytest.raises(ConfigError):
        vmm.stitch(chunks)


def test_stitching_uses_few_driver_calls(gpu):
    chunks = [vmm.create(gpu, GRANULE) for _ in range(8)]
    with driver.counting(gpu) as counts:
        vmm.stitch(chunks).close()
    assert counts.calls == {
        "cuMemGetAllocationGranularity": 1,
        "cuMemAddressReserve": 1,
        "cuMemMap": 8,
        "cuMemSetAccess": 1,
        "cuMemUnmap": 1,
        "cuMemAddressFree": 1,
    }


@pytest.mark.parametrize(
    ("call", "times"), [("cuMemCreate", 3), ("cuMemAddressReserve", 1), ("cuMemMap", 3), ("cuMemSetAccess", 1)]
)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_when_a_step_fails_nothing_is_left_behind(gpu, call, times, nth):
    gpu.synchronize()
    before = picture([gpu])
    with driver.failing(gpu, call=call, nth=nth, code=999):
        if nth > times:
            Segment.create(gpu, 3 * GRANULE).close()
        else:
            with pytest.raises(DriverError) as caught:
                Segment.create(gpu, 3 * GRANULE)
            # The error is still alive: nothing may wait for it to go.
            assert picture([gpu]) == before
            assert (caught.value.call, caught.value.code) == (call, 999)
    assert picture([gpu]) == before


def test_a_segment_that_does_not_fit_leaves_nothing_behind(gpu):
    with pytest.raises(DriverError) as caught:
        Segment.create(gpu, "80MiB")
    assert caught.value.is_out_of_memory
    assert gpu.ledger().is_empty


def test_a_stitch_that_fails_leaves_its_chunks_free(gpu):
    chunks = [vmm.create(gpu, GRANULE) for _ in range(2)]
    with driver.failing(gpu, call="cuMemMap", nth=2), pytest.raises(DriverError):
        vmm.stitch(chunks)
    assert all(chunk.is_free for chunk in chunks)
    vmm.stitch(chunks).close()


def test_devices_that_are_no_peers_cannot_both_have_access():
    with memlake.emulate(devices=2, memory="64MiB", peers="none") as gpus:
        chunks = [vmm.create(gpu, GRANULE) for gpu in gpus]
        with pytest.raises(DriverError) as caught:
            vmm.stitch(chunks)
        assert caught.value.code == 217
        vmm.stitch(chunks, access=()).close()


def test_closing_gives_everything_back(gpu):
    with Segment.create(gpu, 4 * GRANULE) as segment:
        chunks = segment.chunks
        segment.take(0)
    assert segment.is_released
    assert not any(chunk.is_open for chunk in chunks)
    assert gpu.ledger().is_empty
    assert repr(segment) == "Segment(released)"


def test_dropping_gives_everything_back(gpu):
    segment = Segment.create(gpu, 4 * GRANULE)
    fused = vmm.stitch(segment.chunks[:2])
    segment.take(2)
    del segment
    gc.collect()
    assert gpu.free_memory == gpu.total_memory - 2 * GRANULE
    fused.fill(1)
    del fused
    gc.collect()
    assert gpu.ledger().is_empty


def test_closing_twice_is_an_invalid_free_but_leaving_a_closed_block_is_not(gpu):
    with Segment.create(gpu, GRANULE) as segment:
        segment.close()
    with pytest.raises(InvalidFree, match="released before"):
        segment.close()


def test_a_segment_stays_while_others_use_its_chunks(gpu):
    home = Segment.create(gpu, 2 * GRANULE)
    fused = vmm.stitch(home.chunks)
    before = picture([gpu])
    with pytest.raises(InvalidFree, match=r"used by Segment\(.*fused\)"):
        home.close()
    assert picture([gpu]) == before
    fused.close()
    home.close()
    assert gpu.ledger().is_empty


def test_a_live_view_keeps_the_segment(gpu):
    segment = Segment.create(gpu, 2 * GRANULE)
    other = Segment.create(gpu, GRANULE)
    view = segment.numpy()[5:6]
    before = picture([gpu])
    for refused in (
        segment.close,
        lambda: segment.split(GRANULE),
        lambda: segment.merge(other),
        lambda: other.merge(segment),
        lambda: segment.set_access(gpu, "r"),
        gpu.close,
    ):
        with pytest.raises(BufferError, match="view of its memory is alive"):
            refused()
    assert picture([gpu]) == before
    assert not segment.is_released
    view[:] = 1
    del view
    segment.merge(other).close()


def test_work_in_flight_keeps_the_segment(gpu, memlake_emulator):
    segment = Segment.create(gpu, 3 * GRANULE)
    stream = gpu.create_stream()
    with emulator.hold(stream):
        emulator.launch(stream, "work on the last chunk", reads=[(segment.address + 2 * GRANULE, 1)])
        before = picture([gpu])
        with pytest.raises(ContractViolation, match="work on the last chunk"):
            segment.close()
        assert picture([gpu]) == before
        assert not segment.is_released
    stream.sync()
    segment.close()
    memlake_emulator.take_violations()


def test_a_chunk_that_does_not_go_back_does_not_keep_the_rest(gpu):
    segment = Segment.create(gpu, 3 * GRANULE)
    with driver.failing(gpu, call="cuMemRelease", nth=2, code=999), pytest.raises(DriverError):
        segment.close()
    assert segment.is_released
    gc.collect()
    assert gpu.ledger().is_empty


@pytest.mark.parametrize(
    "use",
    [
        lambda segment: segment.address,
        lambda segment: segment.device,
        lambda segment: segment.granularity,
        lambda segment: segment.fill(0),
        lambda segment: segment.copy_from(b""),
        lambda segment: segment.copy_to(bytearray(0)),
        lambda segment: segment.numpy(),
        lambda segment: segment.take(0),
        lambda segment: segment.give_back(0),
        lambda segment: segment.split(GRANULE),
        lambda segment: segment.offset_of(None),
        lambda segment: segment.set_access([], "rw"),
    ],
)
def test_a_released_segment_cannot_be_used(gpu, use):
    segment = Segment.create(gpu, 2 * GRANULE)
    segment.close()
    with pytest.raises(ClosedError):
        use(segment)
    assert segment.chunks == ()
    assert segment.nbytes == segment.free_chunks == segment.used_chunks == 0


def test_a_segment_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match=r"Segment\.create"):
        Segment()
