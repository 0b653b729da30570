import pytest

import memlake
from memlake import ClosedError, ConfigError, DriverError, InvalidFree, Stream, emulator
from memlake.device.stream import resolve_stream


class Foreign:
    """A stream of another library."""

    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


@pytest.fixture
def stream(gpu):
    return gpu.create_stream()


def test_a_stream_knows_its_device_and_handle(gpu, stream):
    assert stream.device is gpu
    assert stream.handle > 2
    assert stream.__cuda_stream__() == (0, stream.handle)
    assert f"{stream.handle:#x}" in repr(stream)


def test_work_runs_in_order_and_sync_waits_for_it(gpu, stream):
    segment = memlake.vmm.Segment.create(gpu, "4MiB")
    with emulator.hold(stream):
        segment.fill(1, stream=stream)
        segment.fill(2, stream=stream)
        assert not stream.is_done
        assert (segment.numpy() == 0).all()
    stream.sync()
    assert stream.is_done
    assert (segment.numpy() == 2).all()


def test_a_stream_waits_for_an_event_of_another(gpu):
    first, second = gpu.create_stream(), gpu.create_stream()
    with emulator.hold(first):
        event = first.record()
        second.wait(event)
        emulator.launch(second, "work")
        assert not second.is_done
    second.sync()
    assert event.is_done


def test_a_stream_waits_for_what_another_has_queued(gpus):
    first, second = gpus[0].create_stream(), gpus[1].create_stream()
    with emulator.hold(first):
        second.wait(first)
        assert not second.is_done
    second.sync()


def test_a_stream_waits_for_a_foreign_stream(gpu, stream):
    other = gpu.create_stream()
    with emulator.hold(other):
        stream.wait(Foreign((0, other.handle)))
        assert not stream.is_done
    stream.sync()


def test_waiting_for_nothing_is_refused(stream):
    with pytest.raises(ConfigError, match="nothing to wait for"):
        stream.wait(None)


def test_recording_takes_an_event_or_makes_one(gpu, stream):
    event = gpu.create_event(timing=True)
    assert stream.record(event) is event
    assert not stream.record().is_timed


def test_blocking_streams_and_priorities_can_be_asked_for(gpu):
    gpu.create_stream(nonblocking=False, priority=-1).sync()


def test_closing_twice_is_an_invalid_free_but_leaving_a_closed_block_is_not(gpu):
    with gpu.create_stream() as stream:
        stream.close()
    with pytest.raises(InvalidFree, match="closed before"):
        stream.close()
    assert "closed" in repr(stream)


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.sync(),
        lambda stream: stream.is_done,
        lambda stream: stream.record(),
        lambda stream: stream.handle,
        lambda stream: stream.__cuda_stream__(),
        lambda stream: stream.wait(stream),
    ],
)
def test_a_closed_stream_cannot_be_used(stream, use):
    stream.close()
    with pytest.raises(ClosedError):
        use(stream)


def test_a_stream_of_a_closed_device_cannot_be_used_but_closed(gpu, stream):
    gpu.close()
    with pytest.raises(ClosedError):
        stream.sync()
    stream.close()


def test_a_dropped_stream_is_destroyed_and_its_work_is_finished(gpu):
    segment = memlake.vmm.Segment.create(gpu, "4MiB")
    stream = gpu.create_stream()
    gate = emulator.hold(stream)
    segment.fill(7, stream=stream)
    del stream
    gate.open()
    gpu.synchronize()
    assert (segment.numpy() == 7).all()
    del gate
    assert [entry.kind for entry in gpu.ledger().streams] in ([], ["legacy"])


def test_the_default_stream_belongs_to_the_device(gpus):
    assert gpus[0].default_stream is gpus[0].default_stream
    assert gpus[0].default_stream != gpus[1].default_stream
    assert "default" in repr(gpus[0].default_stream)
    with pytest.raises(InvalidFree, match="default stream"):
        gpus[0].default_stream.close()
    with gpus[0].default_stream as stream:
        stream.sync()


def test_each_default_stream_runs_on_its_own_device(gpus):
    with emulator.hold(gpus[1]):
        emulator.launch(gpus[1], "work")
        assert gpus[0].default_stream.is_done
        assert not gpus[1].default_stream.is_done


def test_a_foreign_handle_is_wrapped_and_never_destroyed(gpu, stream):
    wrapped = Stream.from_handle(stream.handle, device=gpu)
    assert wrapped == stream
    assert hash(wrapped) == hash(stream)
    wrapped.close()
    stream.sync()


def test_a_stream_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match="create_stream"):
        Stream()


def test_a_stream_argument_may_be_many_things(gpu, stream):
    assert resolve_stream(None, gpu) is gpu.default_stream
    assert resolve_stream(stream, gpu) is stream
    assert resolve_stream(stream.handle, gpu) == stream
    assert resolve_stream(Foreign((0, stream.handle)), gpu) == stream


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("stream", "got str"),
        (1.5, "got float"),
        (True, "got bool"),
        (-1, "-1 is not a stream handle"),
        (2**64, "is not a stream handle"),
        (Foreign(7), "must answer"),
        (Foreign((1, 7)), "version 1"),
        (Foreign((0, "7")), "'7' is not a stream handle"),
    ],
)
def test_what_is_no_stream_is_refused_with_the_reason(gpu, argument, reason):
    with pytest.raises(ConfigError, match=reason):
        resolve_stream(argument, gpu)


def test_a_handle_that_is_no_stream_is_refused_by_the_driver(gpu):
    segment = memlake.vmm.Segment.create(gpu, "2MiB")
    with pytest.raises(DriverError) as caught:
        segment.fill(0, stream=0xDEADBEE0)
    assert caught.value.code == 400
