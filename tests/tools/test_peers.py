"""The comparison of the battery in tests/peers: what it accepts and what it must reject."""

from __future__ import annotations

import json

import pytest
from benchmarks.figures import SkippedError
from benchmarks.peerlab import find_peerlab
from benchmarks.pytorch_figures import losses, markdown

from peers.outcomes import EXPECTED, differences, expected_of, is_untrue, unexpected, unused

NATIVE = {"value": {"reserved": 20, "sizes": [1, 2]}}


def test_equal_outcomes_have_no_difference():
    assert unexpected(NATIVE, {"value": {"reserved": 20, "sizes": [1, 2]}}, {}) == []


def test_a_difference_is_named_by_its_place():
    (found,) = differences(NATIVE, {"value": {"reserved": 20, "sizes": [1, 3]}})
    assert (found.place, found.native, found.found) == ("value.sizes.1", 2, 3)


def test_lists_of_other_lengths_are_one_difference():
    (found,) = differences(NATIVE, {"value": {"reserved": 20, "sizes": []}})
    assert found.place == "value.sizes"


def test_an_expected_place_covers_what_is_below_it():
    other = {"value": {"reserved": 20, "sizes": [1, 3]}}
    assert unexpected(NATIVE, other, {"value.sizes": {"why": "a reason"}}) == []
    assert unexpected(NATIVE, other, {"value.size": {"why": "another place"}}) != []


def test_an_expected_value_must_be_found():
    other = {"value": {"reserved": 10, "sizes": [1, 2]}}
    assert unexpected(NATIVE, other, {"value.reserved": {"is": 10, "why": "a reason"}}) == []
    (sentence,) = unexpected(NATIVE, other, {"value.reserved": {"is": 12, "why": "a reason"}})
    assert "expected 12" in sentence


def test_an_error_where_native_has_a_value_is_a_failure():
    failed = {"error": "RuntimeError", "message": "no way", "where": "a.py in b"}
    assert unexpected(NATIVE, failed, {}) == ["RuntimeError in a.py in b: no way"]
    assert unexpected(NATIVE, failed, {"error": {"is": "no way", "why": "a reason"}}) == []
    assert unexpected(NATIVE, failed, {"error": {"is": "something else", "why": "a reason"}}) != []


def test_a_value_where_native_has_an_error_is_a_failure():
    refused = {"error": "RuntimeError", "message": "no way", "where": "a.py in b"}
    assert unexpected(refused, NATIVE, {}) != []


@pytest.mark.parametrize(
    "outcome",
    [
        {"error": "UntrueError", "message": "1 is 2", "where": "a.py in b"},
        {"value": 1, "books": "the segments do not add up"},
        {"value": 1, "exit_code": -6, "stderr": "abort"},
    ],
)
def test_what_is_not_true_is_a_failure_under_every_allocator(outcome):
    assert is_untrue(outcome) is not None
    assert unexpected({"value": 1}, outcome, {}) != []


def test_an_expected_difference_that_is_gone_is_listed():
    assert unused(NATIVE, NATIVE, {"value.reserved": {"why": "a reason"}}) == ["value.reserved"]


def test_a_rule_of_a_group_is_for_the_probes_without_a_rule_of_their_own():
    group, own = {"error": {"why": "a reason"}}, {"value": {"why": "another"}}
    expected = {"graphs.*": group, "graphs.shared_pool": own}
    assert expected_of("graphs.shared_pool", expected) == own
    assert expected_of("graphs.of_one_tensor", expected) == group
    assert expected_of("streams.of_one_tensor", expected) == {}


def test_every_expected_difference_has_a_reason():
    for probe, modes in json.loads(EXPECTED.read_text()).items():
        for mode, places in modes.items():
            for place, allowed in places.items():
                assert allowed.keys() <= {"is", "why"}, f"{probe} {mode} {place}"
                assert allowed["why"], f"{probe} {mode} {place}"


def test_a_missing_lab_says_how_to_build_one(monkeypatch, tmp_path):
    monkeypatch.delenv("MEMLAKE_PEERLAB", raising=False)
    with pytest.raises(SkippedError, match=r"MEMLAKE_PEERLAB is not set.*build\.sh full"):
        find_peerlab()
    monkeypatch.setenv("MEMLAKE_PEERLAB", str(tmp_path))
    with pytest.raises(SkippedError, match=r"has no fakerun\.sh"):
        find_peerlab()


def row(held: int, smallest: int) -> dict[str, object]:
    return {"runs": True, "live_peak": 90, "held_peak": held, "smallest": smallest, "allocations": 1}


def test_a_figure_that_is_worse_than_expandable_segments_is_a_loss_and_bold():
    better = {"native": row(120, 110), "expandable": row(100, 100), "memlake": row(100, 100)}
    worse = {"native": row(120, 110), "expandable": row(100, 100), "memlake": row(101, 101)}
    assert losses({"a": better}) == []
    assert len(losses({"a": worse})) == 2
    assert "**" not in markdown({"a": better})
    assert markdown({"a": worse}).count("**") == 4
    assert losses({"a": {**better, "memlake": {"runs": False}}}) == ["a: runs out of memory on 80 GiB"]
