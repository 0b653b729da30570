import pytest

import memlake
from memlake import ConfigError, DriverError, InvalidFree, emulator, vmm


@pytest.fixture
def manual(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", streams="manual")
    return gpu


def test_a_manual_stream_runs_step_by_step(manual):
    stream = manual.create_stream()
    segment = vmm.Segment.create(manual, "2MiB")
    for value in (1, 2, 3):
        segment.fill(value, stream=stream)
    assert emulator.pending(stream) == 3
    assert segment.numpy()[0] == 0
    assert emulator.step(stream) == 1
    assert segment.numpy()[0] == 1
    assert emulator.step(stream, 10) == 2
    assert segment.numpy()[0] == 3
    assert emulator.step(stream) == 0


def test_a_gate_stops_a_manual_stream_too(manual):
    stream = manual.create_stream()
    with emulator.hold(stream) as gate:
        emulator.launch(stream, "work")
        emulator.step(stream, 10)
        assert emulator.pending(stream) > 0
        assert not gate.is_open
    emulator.step(stream, 10)
    assert emulator.pending(stream) == 0


def test_a_gate_opens_once(gpu):
    gate = emulator.hold(gpu)
    assert "shut" in repr(gate)
    assert gate.stream is gpu.default_stream
    with gate:
        gate.open()
    assert gate.is_open
    with pytest.raises(InvalidFree, match="opened before"):
        gate.open()


def test_a_gate_of_a_closed_device_holds_nothing(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    with emulator.hold(gpu):
        gpu.close()


def test_work_that_touches_what_it_may_not_loses_the_context(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    segment = vmm.Segment.create(gpu, "2MiB", access=())
    stream = gpu.create_stream()
    emulator.launch(stream, "bad work", writes=[(segment.address, 8)])
    with pytest.raises(DriverError) as caught:
        stream.sync()
    assert caught.value.code == 700
    assert caught.value.is_sticky
    with pytest.raises(DriverError) as later:
        gpu.synchronize()
    assert later.value.is_sticky
    assert not later.value.is_out_of_memory


@pytest.mark.parametrize("is_known_before_the_wait", [True, False])
def test_a_call_that_reports_the_lost_context_comes_after_its_work(memlake_emulator, is_known_before_the_wait):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    segment, untouched = (vmm.Segment.create(gpu, "2MiB", access=access) for access in ((), None))
    stream, other = gpu.create_stream(), gpu.create_stream()
    never_run = emulator.hold(other)
    emulator.launch(other, "work that is never run", writes=[untouched])
    emulator.launch(stream, "bad work", writes=[(segment.address, 8)])
    while is_known_before_the_wait and not any(entry.sticky for entry in emulator.ledger().contexts):
        pass
    with pytest.raises(DriverError, match="700"):
        stream.sync()
    segment.close()
    untouched.close()
    never_run.open()


def test_ranges_are_memory_or_address_and_size(gpu):
    segment = vmm.Segment.create(gpu, "2MiB")
    emulator.launch(gpu, "work", reads=[segment], writes=[(segment.address, 16)])
    gpu.synchronize()
    for bad in (5, (1, 2, 3), (-1, 2), ("x", 2)):
        with pytest.raises(ConfigError):
            emulator.launch(gpu, "work", reads=[bad])


@pytest.mark.parametrize("argument", [None, 5, "stream"])
def test_what_is_no_stream_is_refused(argument):
    with pytest.raises(ConfigError, match=r"Stream\.from_handle"):
        emulator.pending(argument)


@pytest.mark.parametrize("count", [-1, True, 1.0])
def test_steps_are_counted_in_whole_numbers(manual, count):
    with pytest.raises(ConfigError, match="count"):
        emulator.step(manual, count)


def test_resetting_the_ledger_forgets_calls_but_not_what_exists(gpu):
    chunk = vmm.create(gpu, "2MiB")
    emulator.reset_ledger()
    ledger = emulator.ledger()
    assert "cuMemCreate" not in ledger.calls
    assert ledger.held(gpu) == chunk.nbytes


def test_a_gate_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="hold"):
        memlake.emulator.Gate()
