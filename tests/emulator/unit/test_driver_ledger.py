import dataclasses

import pytest

from memlake import ContractViolation, emulator, vmm
from memlake.emulator.driver_ledger import Ledger


def test_the_ledger_lists_what_exists_and_who_made_it(gpus):
    a, b = gpus
    segment = vmm.Segment.create(a, "4MiB", access=gpus)
    stream, event = a.create_stream(), b.create_event()
    ledger = emulator.ledger()
    own = ledger.of(a)
    assert [(chunk.size, chunk.references, chunk.mappings) for chunk in own.chunks] == [(2**21, 1, 1)] * 2
    assert [mapping.address for mapping in own.mappings] == [segment.address, segment.address + 2**21]
    assert own.mappings[0].access == {a.ordinal: 3, b.ordinal: 3}
    assert [(entry.address, entry.size, entry.mapped) for entry in own.reservations] == [
        (segment.address, segment.nbytes, segment.nbytes)
    ]
    assert [entry.handle for entry in own.streams] == [stream.handle]
    assert [entry.handle for entry in ledger.of(b).events] == [event.handle]
    assert own.chunks[0].made_by.call == "cuMemCreate"
    assert own.mappings[0].made_by.call == "cuMemMap"
    assert own.chunks[0].made_by.sequence < own.mappings[0].made_by.sequence
    assert own.devices[0].total == a.total_memory
    assert ledger.calls["cuMemMap"] >= 2


def test_held_counts_physical_memory(gpus):
    a, b = gpus
    vmm.create(a, "2MiB")
    with vmm.create(a, "4MiB"), vmm.create(b, "6MiB"):
        ledger = emulator.ledger()
    assert ledger.held(a) == 4 * 2**20
    assert ledger.held(b.ordinal) == 6 * 2**20
    assert ledger.held() >= 10 * 2**20


def test_a_ledger_is_empty_when_nothing_is_left(gpu):
    assert gpu.ledger().is_empty
    chunk = vmm.create(gpu, "2MiB")
    assert not gpu.ledger().is_empty
    chunk.close()
    assert gpu.ledger().is_empty


def test_a_ledger_reads_as_a_table(gpu):
    segment = vmm.Segment.create(gpu, "4MiB")
    text = str(gpu.ledger())
    assert f"device {gpu.ordinal}: {gpu.name}, 4 MiB held of 64 MiB" in text
    assert "2 chunks:" in text
    assert "1 reservation:" in text
    assert f"{segment.address:#x}" in text
    assert "(cuMemCreate #" in text
    segment.close()
    assert str(gpu.ledger()).endswith("nothing is left")


def test_violations_are_sentences(gpu, memlake_emulator):
    segment = vmm.Segment.create(gpu, "2MiB")
    stream = gpu.create_stream()
    with emulator.hold(stream):
        emulator.launch(stream, "matrix multiply", reads=[segment])
        with pytest.raises(ContractViolation, match="matrix multiply"):
            segment.close()
    stream.sync()  # else the segment may be dropped while the work still uses it
    (incident,) = memlake_emulator.take_violations()
    assert incident.call == "cuMemUnmap"
    assert "matrix multiply" in incident.text
    assert str(incident) in str(emulator.ledger())


def test_a_ledger_does_not_change_afterwards(gpu):
    before = gpu.ledger()
    chunk = vmm.create(gpu, "2MiB")
    assert before.is_empty
    assert before != gpu.ledger()
    chunk.close()
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.chunks = ()


def test_an_empty_ledger_can_be_read():
    lists = (
        "devices reservations chunks mappings allocations managed_allocations host_allocations pools pool_allocations"
        " contexts streams events modules libraries graphs graph_execs graph_memory user_objects violations warnings"
    )
    text = (
        "{" + ", ".join(f'"{name}": []' for name in lists.split()) + ', "skipped_kernels": {}, "calls": {"cuInit": 1}}'
    )
    ledger = Ledger.from_json(text)
    assert ledger.is_empty
    assert ledger.held() == 0
    assert str(ledger) == "nothing is left"
    assert dict(ledger.calls) == {"cuInit": 1}
