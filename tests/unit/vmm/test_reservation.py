import pytest

from helpers.pictures import picture
from memlake import ClosedError, ConfigError, DriverError, InvalidFree, driver, vmm

GRANULE = 2 * 2**20


@pytest.fixture
def addresses(gpu):
    return vmm.reserve(gpu, 4 * GRANULE)


@pytest.fixture
def chunk(gpu):
    return vmm.create(gpu, GRANULE)


def test_addresses_cost_no_memory(gpu):
    addresses = vmm.reserve(gpu, 100 * gpu.total_memory)
    assert addresses.nbytes == 100 * gpu.total_memory
    assert addresses.address % GRANULE == 0
    assert addresses.device is gpu
    assert addresses.is_open
    assert addresses.mappings == []
    assert gpu.free_memory == gpu.total_memory
    assert f"{addresses.address:#x}" in repr(addresses)


def test_an_alignment_can_be_asked_for(gpu):
    assert vmm.reserve(gpu, GRANULE, alignment="1GiB").address % 2**30 == 0


def test_an_address_is_only_a_wish(gpu, addresses):
    other = vmm.reserve(gpu, GRANULE, address=addresses.address)
    assert other.address != addresses.address


def test_an_impossible_range_is_not_out_of_memory(gpu):
    for options in ({"nbytes": 2**62}, {"nbytes": 0}, {"nbytes": GRANULE + 1}, {"nbytes": GRANULE, "alignment": 3}):
        with pytest.raises(DriverError) as caught:
            vmm.reserve(gpu, **options)
        assert caught.value.code == 2
        assert caught.value.kind == "address_exhaustion"
        assert not caught.value.is_out_of_memory


def test_the_same_chunk_twice_shows_the_same_bytes(gpu, addresses, chunk):
    here = addresses.map(chunk, access=gpu)
    there = addresses.map(chunk, 3 * GRANULE, access=gpu)
    here.fill(9)
    assert (there.numpy() == 9).all()
    assert addresses.mappings == [here, there]
    assert [mapping.offset for mapping in addresses.mappings] == [0, 3 * GRANULE]


def test_a_beginning_of_a_chunk_can_be_mapped(gpu, addresses):
    chunk = vmm.create(gpu, 2 * GRANULE)
    assert addresses.map(chunk, nbytes=GRANULE).nbytes == GRANULE


def test_a_new_mapping_gives_nobody_access(gpu, addresses, chunk):
    mapping = addresses.map(chunk)
    assert mapping.access(gpu) == addresses.access(gpu) == "none"


def test_access_is_given_to_several_devices_at_once(gpus, addresses, chunk):
    with driver.counting(gpus[0]) as counts:
        mapping = addresses.map(chunk, access=gpus)
    assert [mapping.access(gpu) for gpu in gpus] == ["rw", "rw"]
    assert counts["cuMemSetAccess"] == 1


def test_access_is_set_over_several_mappings_with_one_call(gpus, addresses):
    kept = [addresses.map(vmm.create(gpus[index % 2], GRANULE), index * GRANULE) for index in range(4)]
    with driver.counting(gpus[0]) as counts:
        addresses.set_access(gpus, "rw")
        addresses.set_access(gpus[1], "r", offset=GRANULE, nbytes=2 * GRANULE)
    assert counts["cuMemSetAccess"] == 2
    assert [addresses.access(gpus[1], index * GRANULE) for index in range(4)] == ["rw", "r", "r", "rw"]
    assert [mapping.access(gpus[0]) for mapping in kept] == ["rw"] * 4


def test_a_mapping_whose_access_fails_is_undone(gpus, addresses, chunk):
    before = picture(gpus)
    with driver.failing(gpus[0], call="cuMemSetAccess"), pytest.raises(DriverError):
        addresses.map(chunk, access=gpus)
    assert picture(gpus) == before
    assert addresses.mappings == []


def test_several_mappings_are_unmapped_at_once(gpu, addresses):
    mappings = [addresses.map(vmm.create(gpu, GRANULE), index * GRANULE) for index in range(3)]
    with driver.counting(gpu) as counts:
        addresses.unmap(GRANULE, 2 * GRANULE)
    assert counts["cuMemUnmap"] == 1
    assert [mapping.is_open for mapping in mappings] == [True, False, False]
    addresses.unmap(0, GRANULE)
    addresses.close()
    mappings.clear()
    assert gpu.ledger().is_empty


def test_only_whole_mappings_without_holes_are_unmapped(gpu, addresses):
    chunks = [vmm.create(gpu, 2 * GRANULE), vmm.create(gpu, GRANULE)]
    kept = [addresses.map(chunks[0]), addresses.map(chunks[1], 3 * GRANULE)]
    before = picture([gpu])
    for offset, nbytes, reason in [
        (0, GRANULE, "cuts"),
        (GRANULE, GRANULE, "cuts"),
        (0, 4 * GRANULE, "nothing is mapped at offset 4194304"),
        (2 * GRANULE, GRANULE, "nothing is mapped"),
        (0, 0, "nothing is mapped"),
        (0, 5 * GRANULE, "not inside"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            addresses.unmap(offset, nbytes)
    assert picture([gpu]) == before
    assert addresses.mappings == kept


def test_a_live_view_keeps_the_mappings_of_a_range(gpu, addresses, chunk):
    mapping = addresses.map(chunk, access=gpu)
    view = mapping.numpy()[:1]
    for refused in (
        addresses.close,
        lambda: addresses.unmap(0, GRANULE),
        lambda: addresses.set_access(gpu, "r", nbytes=GRANULE),
    ):
        with pytest.raises(BufferError):
            refused()
    assert mapping.access(gpu) == "rw"
    del view
    addresses.unmap(0, GRANULE)


def test_addresses_with_something_mapped_are_not_given_back(gpu, addresses, chunk):
    mapping = addresses.map(chunk)
    with pytest.raises(InvalidFree):
        addresses.close()
    assert mapping.is_open
    assert addresses.is_open
    mapping.close()
    addresses.close()
    assert not addresses.is_open


def test_leaving_the_block_unmaps_and_gives_back(gpu, chunk):
    with vmm.reserve(gpu, GRANULE) as addresses:
        mapping = addresses.map(chunk)
    assert not mapping.is_open
    assert not addresses.is_open
    assert gpu.ledger().reservations == ()


def test_addresses_live_until_the_last_mapping_is_dropped(gpu, chunk):
    mapping = vmm.reserve(gpu, GRANULE).map(chunk, access=gpu)
    mapping.fill(1)
    assert mapping.reservation.is_open
    del mapping
    assert gpu.ledger().reservations == ()


def test_closed_addresses_cannot_be_used(gpu, addresses, chunk):
    addresses.close()
    for use in (
        lambda: addresses.address,
        lambda: addresses.map(chunk),
        lambda: addresses.set_access(gpu, "rw"),
        lambda: addresses.access(gpu),
    ):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(InvalidFree, match="closed before"):
        addresses.close()
    assert "closed" in repr(addresses)


def test_a_reservation_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="reserve"):
        vmm.Reservation()
