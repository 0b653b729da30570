"""The labels of ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake.jobs.labels import labelled, missing_numbers, natural_key, repeated_numbers


def titles(*paths):
    files, _ = labelled(paths)
    return [file.title for file in files]


@pytest.mark.parametrize(
    "pattern",
    ["rank_{}.pickle", "rank{}.pickle", "Rank-{}.pkl", "_memory_snapshot_rank0{}.pickle", "host_rank={}.npz",
     "run/rank_{}/snapshot.pickle", "it_7/rank{}_memory_snapshot.pickle"],
)  # fmt: skip
def test_a_number_after_the_word_rank_is_the_rank(pattern):
    files, how = labelled([pattern.format(rank) for rank in (10, 9, 2)])
    assert [file.number for file in files] == [2, 9, 10]
    assert [file.title for file in files] == ["rank 2", "rank 9", "rank 10"]
    assert '"rank"' in how


def test_last_numbers_that_count_from_zero_are_ranks_and_it_is_said():
    files, how = labelled(["host_x_1.pickle", "host_x_0.pickle"])
    assert [(file.number, file.path) for file in files] == [(0, "host_x_0.pickle"), (1, "host_x_1.pickle")]
    assert "the last numbers" in how


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["snap_4.pickle", "snap_3.pickle"], ["snap_3", "snap_4"]),  # they do not count from 0
        (["a_0.pickle", "b_1.pickle"], ["a_0", "b_1"]),  # more than the number differs
        (["frank1.pickle", "x.pickle"], ["frank1", "x"]),
        (["rank0.pickle", "x.pickle"], ["rank0", "x"]),  # only one is known
        (["dp_rank0_tp_rank1.pickle", "dp_rank0_tp_rank0.pickle"], ["dp_rank0_tp_rank0", "dp_rank0_tp_rank1"]),
        (["s10.pickle", "s9.pickle"], ["s9", "s10"]),
        (["x.pickle", "x.npz"], ["x.npz", "x.pickle"]),
        (["a/x.pickle", "b/x.pickle"], ["a/x", "b/x"]),
    ],
)
def test_in_doubt_the_names_of_the_files_are_the_labels(paths, expected):
    files, how = labelled(paths)
    assert [file.label for file in files] == expected
    assert how == ""
    assert {file.number for file in files} == {None}


def test_several_files_of_one_rank_are_told_apart_by_what_differs():
    assert titles("rank0_iteration_2.pickle", "rank1_iteration_2.pickle", "rank0_iteration_10.pickle") == [
        "rank 0 (iteration_2)",
        "rank 0 (iteration_10)",
        "rank 1 (iteration_2)",
    ]
    assert titles("hostA_rank0.pickle", "hostB_rank0.pickle") == ["rank 0 (hostA)", "rank 0 (hostB)"]
    assert titles("it_1/rank0.pickle", "it_2/rank0.pickle") == ["rank 0 (it_1)", "rank 0 (it_2)"]


@given(st.lists(st.text("rank_0123456789abAB-./", min_size=1, max_size=20), min_size=1, max_size=6, unique=True))
def test_labels_always_differ_and_the_order_does_not_depend_on_the_input(names):
    paths = sorted({f"run/{name.strip('/.') or 'x'}.pickle" for name in names})
    files, how = labelled(paths)
    assert len({file.label for file in files}) == len(files)
    assert sorted(file.path for file in files) == paths
    assert labelled(paths[::-1]) == (files, how)


def test_repeated_and_missing_ranks_are_found():
    files, _ = labelled(["rank1_a.pickle", "rank1_b.pickle", "rank3_a.pickle"])
    assert repeated_numbers(files) == {1: 2}
    assert missing_numbers(files) == [0, 2]
    assert len(missing_numbers(labelled(["rank999999.pickle", "rank0.pickle"])[0])) <= 1000


def test_numbers_in_names_are_sorted_by_value():
    assert sorted(["a10", "a9", "a09b", "a"], key=natural_key) == ["a", "a09b", "a9", "a10"]
