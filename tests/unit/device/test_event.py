import pytest

import memlake
from memlake import ClosedError, ConfigError, DriverError, Event, InvalidFree, emulator


def test_an_event_that_was_never_recorded_is_done(gpu):
    event = gpu.create_event()
    assert event.is_done
    event.sync()


def test_an_event_is_done_when_the_work_before_it_is(gpu):
    stream = gpu.create_stream()
    with emulator.hold(stream):
        event = stream.record()
        assert not event.is_done
    event.sync()
    assert event.is_done


def test_the_difference_of_two_events_is_in_milliseconds(gpu):
    stream = gpu.create_stream()
    start, end = gpu.create_event(timing=True), gpu.create_event(timing=True)
    stream.record(start)
    emulator.launch(stream, "work")
    stream.record(end)
    end.sync()
    assert end - start >= 0
    assert start.is_timed


def test_events_without_timing_do_not_measure(gpu):
    timed, untimed = gpu.create_event(timing=True), gpu.create_event()
    for pair in ((timed, untimed), (untimed, timed)):
        with pytest.raises(ConfigError, match="timing=True"):
            pair[0] - pair[1]


def test_unfinished_events_have_no_difference(gpu):
    stream = gpu.create_stream()
    start, end = (stream.record(gpu.create_event(timing=True)) for _ in range(2))
    stream.sync()
    with emulator.hold(stream):
        stream.record(end)
        with pytest.raises(DriverError) as caught:
            end - start
        assert caught.value.code == 600


def test_only_events_can_be_subtracted(gpu):
    with pytest.raises(TypeError):
        gpu.create_event(timing=True) - 3


def test_closing_twice_is_an_invalid_free_but_leaving_a_closed_block_is_not(gpu):
    with gpu.create_event() as event:
        event.close()
    with pytest.raises(InvalidFree, match="closed before"):
        event.close()
    assert "closed" in repr(event)


@pytest.mark.parametrize("use", [lambda event: event.sync(), lambda event: event.is_done, lambda event: event.handle])
def test_a_closed_event_cannot_be_used(gpu, use):
    event = gpu.create_event()
    event.close()
    with pytest.raises(ClosedError):
        use(event)


def test_an_event_of_another_device_cannot_be_recorded(gpus):
    with pytest.raises(DriverError) as caught:
        gpus[0].create_stream().record(gpus[1].create_event())
    assert caught.value.code == 400


def test_an_event_may_be_closed_before_it_is_done(gpu):
    stream, other = gpu.create_stream(), gpu.create_stream()
    with emulator.hold(stream):
        event = stream.record()
        other.wait(event)
        event.close()
        assert not other.is_done
    other.sync()
    assert not gpu.ledger().events


def test_an_event_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="create_event"):
        Event()


def test_an_event_belongs_to_its_device(gpu):
    event = gpu.create_event()
    assert event.device is gpu
    assert f"{event.handle:#x}" in repr(event)
    assert isinstance(event, memlake.Event)
