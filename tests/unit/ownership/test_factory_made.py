import pytest

import memlake
from memlake import emulator, sharing, vmm

CLASSES = [
    (memlake.Device, "memlake.devices() or memlake.emulate()"),
    (memlake.EmulatedDevice, "memlake.devices() or memlake.emulate()"),
    (memlake.Stream, "device.create_stream() or Stream.from_handle()"),
    (memlake.Event, "stream.record() or device.create_event()"),
    (emulator.Gate, "memlake.emulator.hold(stream)"),
    (vmm.Chunk, "memlake.vmm.create() or memlake.vmm.import_chunk()"),
    (vmm.Reservation, "memlake.vmm.reserve()"),
    (vmm.Mapping, "reservation.map(chunk)"),
    (vmm.Segment, "Segment.create() or memlake.vmm.stitch()"),
    (sharing.Share, "buffer.export() or memlake.sharing.receive()"),
    (sharing.SharedBuffer, "share.open()"),
]


@pytest.mark.parametrize(("kind", "instead"), CLASSES)
def test_a_constructor_refuses_and_names_what_to_call(kind, instead):
    for arguments in ((), (0, "1GiB")):
        with pytest.raises(TypeError) as refusal:
            kind(*arguments)
        assert str(refusal.value) == f"{kind.__name__} cannot be made by hand; use {instead}"
