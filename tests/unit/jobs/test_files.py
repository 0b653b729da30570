"""The files of a job: folders, patterns, names."""

import os
from pathlib import Path

import pytest

from memlake.errors import ConfigError, TraceError
from memlake.jobs.files import MOST_FILES, find_files


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes empty files in the current folder."""
    monkeypatch.chdir(tmp_path)

    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())

    return make


def found(*names):
    return sorted(os.path.relpath(path) for path in find_files(names).paths)


def test_a_folder_means_the_snapshots_in_it_and_counts_other_files(made):
    made("run/rank0.pickle", "run/rank1.PKL", "run/a.npz", "run/b.pickle.gz", "run/README.md", "run/model.pt")
    made("run/.hidden.pickle", "run/rank2.pickle.tmp", "run/inner/rank3.pickle")
    result = find_files(["run"])
    assert sorted(map(os.path.basename, result.paths)) == ["a.npz", "b.pickle.gz", "rank0.pickle", "rank1.PKL"]
    assert result.num_ignored == 4
    assert result.ignored == [".hidden.pickle", "README.md", "model.pt"]


def test_a_folder_without_snapshots_says_what_was_looked_for(made):
    made("run/README.md")
    with pytest.raises(
        ConfigError,
        match=r"'run' is a directory without snapshots: .*\.pickle, \.pkl or \.npz.*its 1 other file is ign",
    ):
        find_files(["run"])


def test_a_folder_of_folders_says_where_the_snapshots_are(made):
    made("run/iteration_10/rank0.pickle")
    with pytest.raises(ConfigError, match=r"there are some in 'run/iteration_10': .*'run/\*/\*\.pickle'"):
        find_files(["run"])
    assert found("run/*/*.pickle") == ["run/iteration_10/rank0.pickle"]


def test_a_pattern_takes_every_file_that_matches_but_hidden_ones_and_folders(made):
    made("a/x1.bin", "a/x2.bin", "a/.x3.bin", "a/x4.bin/inner")
    result = find_files(["a/*.bin"])
    assert sorted(map(os.path.basename, result.paths)) == ["x1.bin", "x2.bin"]
    assert result.num_ignored == 2
    assert found("a/.x*.bin") == ["a/.x3.bin"]
    assert found("a/x[12].bin") == ["a/x1.bin", "a/x2.bin"]


def test_an_absolute_pattern_works(made, tmp_path):
    made("a/x1.bin")
    assert found(f"{tmp_path}/a/x?.bin") == ["a/x1.bin"]


def test_a_pattern_without_files_is_refused(made):
    made("a/inner/x")
    with pytest.raises(ConfigError, match=r"no file matches the pattern 'b\*'"):
        find_files(["b*"])
    with pytest.raises(ConfigError, match=r"no file matches the pattern 'a/\*', only 1 folder"):
        find_files(["a/*"])


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(made):
    made("snap[1].pickle", "snap1.pickle")
    assert found("snap[1].pickle") == ["snap[1].pickle"]


def test_loops_of_symbolic_links_end(made):
    made("run/rank0.pickle")
    Path("run/self").symlink_to(".")
    Path("run/up").symlink_to("..")
    assert found("run/**/*.pickle") == ["run/rank0.pickle"]
    assert found("run") == ["run/rank0.pickle"]


def test_a_link_to_itself_is_left_to_the_reader_of_the_file(made):
    made("run/rank0.pickle")
    Path("run/rank1.pickle").symlink_to("rank1.pickle")
    assert found("run") == ["run/rank0.pickle", "run/rank1.pickle"]


def test_a_file_that_is_named_twice_counts_once(made):
    made("run/rank0.pickle", "run/rank1.pickle")
    Path("run/rank7.pickle").symlink_to("rank0.pickle")
    result = find_files(["run", "run/rank1.pickle"])
    assert len(result.paths) == 2
    assert result.num_repeated == 2


def test_missing_and_impossible_names_are_refused(made):
    made("rank0.pickle")
    with pytest.raises(FileNotFoundError, match=r"rank1\.pickle"):
        find_files(["rank0.pickle", "rank1.pickle"])
    for name in ("", "a\0b"):
        with pytest.raises(ConfigError, match="the name of a file"):
            find_files([name])
    with pytest.raises(ConfigError, match="no files were given"):
        find_files([])
    with pytest.raises(TraceError):
        find_files(["x" * 5000])


def test_too_many_files_are_refused(made):
    made(*(f"run/rank{rank}.pickle" for rank in range(MOST_FILES + 1)))
    with pytest.raises(ConfigError, match=f"more than {MOST_FILES} files"):
        find_files(["run"])


def test_examples_can_be_named(made):
    made("x.npz")
    assert len(find_files(["train_moe", "x.npz"]).paths) == 2
