import gc

import numpy as np
import pytest

from memlake.ownership.views import LiveViews, MemoryView


@pytest.fixture
def memory():
    return np.arange(16, dtype=np.uint8)


def view_of(memory, *, is_read_only=False):
    return MemoryView(memory, memory.ctypes.data, memory.nbytes, is_read_only=is_read_only)


def test_a_view_shows_the_memory_itself(memory):
    array = np.asarray(view_of(memory))
    array[3] = 99
    assert memory[3] == 99


def test_a_read_only_view_cannot_be_written(memory):
    array = np.asarray(view_of(memory, is_read_only=True))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_every_slice_keeps_the_view_alive(memory):
    views = LiveViews()
    view = view_of(memory)
    views.add(view)
    part = np.asarray(view).view(np.uint16)[2:4].reshape(2, 1)
    del view
    gc.collect()
    assert len(views) == 1
    with pytest.raises(BufferError, match="cannot close it while a NumPy view of its memory is alive"):
        views.refuse("close it")
    del part
    assert len(views) == 0
    views.refuse("close it")


def test_several_views_are_counted(memory):
    views = LiveViews()
    kept = [view_of(memory), view_of(memory)]
    for view in kept:
        views.add(view)
    with pytest.raises(BufferError, match="2 NumPy views of its memory are alive"):
        views.refuse("close it")
