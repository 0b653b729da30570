"""How many replays run at the same time."""

import pytest

from memlake.analysis.workers import num_threads, replays_at_once


@pytest.mark.parametrize(("capacity", "most"), [(15 * 2**40, 1), (2**41, 2), (2**62, 1)])
def test_replays_on_devices_that_need_many_addresses_run_one_after_another(capacity, most):
    assert replays_at_once(capacity) == min(most, num_threads())


def test_replays_on_usual_devices_use_all_cores():
    assert replays_at_once(0) == replays_at_once(1) == num_threads()
    assert replays_at_once(80 * 2**30) == min(51, num_threads())
