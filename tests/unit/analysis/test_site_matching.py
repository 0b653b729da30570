"""Which call site of one job is which call site of another."""

import random

import pytest

from memlake.analysis.site_matching import MOVED, SAME, UNSURE, match_sites
from memlake.trace import CallSite

FILE = "/job/train.py"


def site(line, function="forward", file=FILE):
    return CallSite(f"{file.rpartition('/')[2]}:{line} {function}", "program", file, line, function)


def lines(sites_a, sites_b):
    """The matched lines of sites that are given as {line: names called below}, with how sure they are."""
    found = match_sites(
        {site(line): frozenset(names) for line, names in sites_a.items()},
        {site(line): frozenset(names) for line, names in sites_b.items()},
    )
    return {one.line: (other.line, sure) for one, (other, sure) in found.pairs.items()}


def without_names(*numbers):
    return dict.fromkeys(numbers, ())


def test_a_site_that_has_not_moved_is_the_same():
    assert lines(without_names(10, 20), without_names(10, 20)) == {10: (10, SAME), 20: (20, SAME)}


def test_the_only_site_of_a_function_is_found_wherever_it_is():
    assert lines(without_names(10), without_names(400)) == {10: (400, MOVED)}


def test_two_sites_of_a_function_that_has_moved_are_not_confused():
    # Line 20 exists in both, but ten lines were inserted before the function.
    assert lines(without_names(10, 20), without_names(20, 30)) == {10: (20, MOVED), 20: (30, MOVED)}


def test_two_sites_are_matched_in_order_when_lines_were_inserted_between_them():
    assert lines(without_names(10, 20), without_names(13, 27)) == {10: (13, MOVED), 20: (27, MOVED)}


def test_two_sites_are_never_merged():
    assert lines(without_names(10, 20), without_names(10)) == {10: (10, SAME)}
    assert lines(without_names(10), without_names(10, 20)) == {10: (10, SAME)}


def test_a_removed_site_does_not_take_the_place_of_another():
    assert lines(without_names(10, 20), without_names(20)) == {20: (20, SAME)}


def test_a_new_site_at_the_end_leaves_the_others_in_place():
    assert lines(without_names(10, 20), without_names(10, 20, 30)) == {10: (10, SAME), 20: (20, SAME)}


def test_a_choice_between_sites_is_said_to_be_one():
    assert lines(without_names(10, 20), without_names(14))[10] == (14, UNSURE)


def test_what_is_called_below_decides_between_two_sites():
    found = lines({10: ["linear"], 20: ["softmax"]}, {14: ["softmax"]})
    assert found == {20: (14, UNSURE)}


def test_a_site_that_has_not_moved_stays_the_same_if_what_it_calls_changed_a_little():
    common = [f"op{number}" for number in range(9)]
    found = lines({10: [*common, "old"], 20: [*common, "other"]}, {20: [*common, "old", "new"]})
    assert found == {20: (20, SAME)}


def test_a_class_that_was_removed_before_another_one_is_not_taken_for_it():
    # Both classes have a function forward, and the second has moved up to the place of the first.
    found = lines({10: ["conv2d"], 50: ["linear"]}, {15: ["linear"]})
    assert found == {50: (15, UNSURE)}


def test_sites_whose_order_changed_are_not_paired_with_the_wrong_one():
    found = lines({10: ["linear"], 20: ["softmax"]}, {12: ["softmax"], 30: ["linear"]})
    assert found in ({10: (30, MOVED)}, {20: (12, MOVED)})


def test_functions_and_files_with_other_names_are_other_sites():
    one = {site(10, "forward"): frozenset(), site(30, file="/job/a.py"): frozenset()}
    other = {site(10, "backward"): frozenset(), site(30, file="/job/b.py"): frozenset()}
    assert match_sites(one, other).pairs == {}


def test_a_site_in_another_folder_has_moved_and_the_folders_are_named():
    found = match_sites({site(10, file="/a/job/x.py"): frozenset()}, {site(10, file="/b/job/x.py"): frozenset()})
    assert [sure for _, sure in found.pairs.values()] == [MOVED]
    assert found.folders == (("/a", "/b"),)


def test_sites_without_a_line_are_the_same_if_their_names_are():
    node = CallSite("autograd MmBackward0", "autograd", function="MmBackward0")
    other = CallSite("autograd AddBackward0", "autograd", function="AddBackward0")
    native = CallSite("C++ MmBackward0", "native", function="MmBackward0")
    found = match_sites({node: frozenset(), other: frozenset()}, {node: frozenset(), native: frozenset()})
    assert found.pairs == {node: (node, SAME)}


def test_tags_that_were_made_of_frames_are_matched_like_frames():
    one, other = CallSite("train.py:10 forward", "tag"), CallSite("train.py:14 forward", "tag")
    plain = CallSite("add.Tensor", "tag")
    found = match_sites({one: frozenset(), plain: frozenset()}, {other: frozenset(), plain: frozenset()})
    assert found.pairs == {one: (other, MOVED), plain: (plain, SAME)}


@pytest.mark.parametrize("seed", range(30))
def test_every_match_is_one_to_one_and_in_order(seed):
    chance = random.Random(seed)
    ops = ["linear", "softmax", "add", "mm"]

    def some():
        return {line: [chance.choice(ops)] for line in chance.sample(range(1, 200), chance.randint(1, 12))}

    found = lines(some(), some())
    pairs = sorted((one, other) for one, (other, _) in found.items())
    others = [other for _, other in pairs]
    assert others == sorted(set(others))


def test_lines_that_were_inserted_anywhere_do_not_confuse_the_sites_of_a_function():
    chance = random.Random(7)
    numbers = sorted(chance.sample(range(1, 300), 20))
    moved = {line: line + 40 * (line > 80) + 3 * (line > 200) for line in numbers}
    found = lines({line: [f"op{line % 5}"] for line in numbers}, {moved[line]: [f"op{line % 5}"] for line in numbers})
    assert {one: other for one, (other, _) in found.items()} == moved


def test_a_function_with_very_many_sites_is_matched_by_its_lines():
    found = lines(without_names(*range(1000, 2000)), without_names(*range(1500, 2600)))
    assert found == {line: (line, SAME) for line in range(1500, 2000)}
