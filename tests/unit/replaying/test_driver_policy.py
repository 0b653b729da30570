"""The policy driver in replays: it runs on the emulator's pools, and says that this is not the real thing."""

import memlake
from memlake.policies import DriverOptions


def test_a_replay_is_marked_approximate_and_its_driver_time_is_not_modelled(moe):
    result = memlake.replay(moe, "driver", "80GiB")
    assert result.fits
    assert result.approximate
    assert result.modelled_driver_ms is None
    assert result.peak_held >= result.peak_live
    calls = result.driver_calls
    assert 0 < calls["cuMemFreeAsync"] <= calls["cuMemAllocFromPoolAsync"]
    text = result.to_json()
    assert text["approximate"] is True
    assert text["modelled_driver_ms"] is None


def test_comparisons_show_it_only_when_it_is_asked_for(moe):
    assert "driver" not in [result.policy for result in memlake.compare(moe, "80GiB")]
    asked = memlake.compare(moe, "80GiB", ["caching", "driver"])
    assert [result.policy for result in asked] == ["caching", "driver"]
    assert asked.sentence


def test_it_runs_out_and_can_be_fitted(moe):
    assert memlake.replay(moe, DriverOptions(), "30GiB").outcome == "oom"
    fitted = memlake.fit(moe, "driver")
    assert fitted.to_json()["policies"][0]["min_capacity"] >= moe.peak_live


def test_the_same_replay_gives_the_same_result(moe):
    first = memlake.replay(moe, "driver", "80GiB", events="lag:20")
    assert first == memlake.replay(moe, "driver", "80GiB", events="lag:20")
