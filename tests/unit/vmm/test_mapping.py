import pytest

from memlake import ClosedError, ConfigError, ContractViolation, InvalidFree, emulator, vmm

GRANULE = 2 * 2**20


@pytest.fixture
def mapping(gpus):
    return vmm.reserve(gpus[0], 2 * GRANULE).map(vmm.create(gpus[0], GRANULE), GRANULE, access=gpus[0])


def test_a_mapping_knows_its_place_and_its_chunk(gpu, mapping):
    assert mapping.address == mapping.reservation.address + GRANULE
    assert mapping.offset == GRANULE
    assert mapping.nbytes == mapping.chunk.nbytes == GRANULE
    assert mapping.device is gpu
    assert f"{mapping.address:#x}" in repr(mapping)


def test_access_is_set_and_asked_per_device(gpus, mapping):
    assert [mapping.access(gpu) for gpu in gpus] == ["rw", "none"]
    mapping.set_access(gpus, "r")
    assert [mapping.access(gpu) for gpu in gpus] == ["r", "r"]
    mapping.set_access([], "none")
    mapping.set_access(gpus[0], "none")
    assert [mapping.access(gpu) for gpu in gpus] == ["none", "r"]


def test_rights_and_devices_are_checked(gpu, mapping):
    for rights in ("w", "", None, 3):
        with pytest.raises(ConfigError, match="rights must be"):
            mapping.set_access(gpu, rights)
    with pytest.raises(ConfigError, match="expected a memlake Device"):
        mapping.set_access([0], "rw")
    assert mapping.access(gpu) == "rw"


def test_a_live_view_keeps_the_mapping(gpu, mapping):
    view = mapping.numpy()
    with pytest.raises(BufferError, match="cannot unmap"):
        mapping.close()
    with pytest.raises(BufferError, match="cannot lower access"):
        mapping.set_access(gpu, "r")
    with pytest.raises(BufferError, match="cannot close EmulatedDevice"):
        gpu.close()
    view[:] = 1
    del view
    mapping.close()


def test_a_view_keeps_a_dropped_mapping(gpu):
    view = vmm.reserve(gpu, GRANULE).map(vmm.create(gpu, GRANULE), access=gpu).numpy()
    view[:] = 3
    assert len(gpu.ledger().mappings) == 1
    del view
    assert gpu.ledger().is_empty


def test_work_in_flight_keeps_the_mapping(gpu, mapping, memlake_emulator):
    stream = gpu.create_stream()
    with emulator.hold(stream):
        emulator.launch(stream, "work", writes=[mapping])
        with pytest.raises(ContractViolation):
            mapping.close()
        assert mapping.is_open
    stream.sync()
    mapping.close()
    memlake_emulator.take_violations()


def test_a_closed_mapping_cannot_be_used(gpu, mapping):
    with mapping:
        mapping.close()
    for use in (
        lambda: mapping.address,
        lambda: mapping.fill(0),
        lambda: mapping.copy_from(b"x"),
        lambda: mapping.copy_to(bytearray(1)),
        mapping.numpy,
        lambda: mapping.access(gpu),
        lambda: mapping.set_access(gpu, "rw"),
    ):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(InvalidFree, match="unmapped before"):
        mapping.close()
    assert "closed" in repr(mapping)


def test_a_mapping_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="map"):
        vmm.Mapping()
