"""Which source file of one job is which file of another."""

import pytest

from memlake.analysis.file_matching import match_files, place_of


def matched(files_a, files_b):
    """The matches as paths."""
    places = {place_of(path): path for path in [*files_a, *files_b]}
    found = match_files(map(place_of, files_a), map(place_of, files_b))
    # Two paths with one place are the same file by definition.
    return {places[a]: places[b] for a, b in found.items()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/home/a/env/lib/python3.10/site-packages/x/y.py", "/opt/venv/lib/python3.12/site-packages/x/y.py"),
        ("/usr/lib/python3/dist-packages/x/y.py", "/opt/venv/lib/python3.12/site-packages/x/y.py"),
        ("/usr/lib/python3.10/copy.py", "/opt/lib64/python3.12/copy.py"),
        ("/tmp/ipykernel_123/99.py", "/tmp/ipykernel_4567/99.py"),
        ("C:\\env\\Lib\\site-packages\\x\\y.py", "/env/site-packages/x/y.py"),
    ],
)
def test_folders_of_an_installation_do_not_count(one, other):
    assert place_of(one) == place_of(other)


def test_a_program_in_another_folder_is_found_by_the_longest_common_end():
    found = matched(
        ["/home/a/job/net/layers.py", "/home/a/job/data/layers.py", "/home/a/job/train.py"],
        ["/srv/b/job/net/layers.py", "/srv/b/job/data/layers.py", "/srv/b/job/train.py"],
    )
    assert found == {
        "/home/a/job/net/layers.py": "/srv/b/job/net/layers.py",
        "/home/a/job/data/layers.py": "/srv/b/job/data/layers.py",
        "/home/a/job/train.py": "/srv/b/job/train.py",
    }


def test_a_script_alone_is_found_by_its_name():
    assert matched(["/home/a/first/train.py"], ["/tmp/second/train.py"]) == {
        "/home/a/first/train.py": "/tmp/second/train.py"
    }


def test_a_file_with_the_same_name_in_another_folder_of_the_same_program_is_another_file():
    # train.py has not moved, so the program has not: encoder/layers.py did not become decoder/layers.py.
    found = matched(["/job/train.py", "/job/encoder/layers.py"], ["/job/train.py", "/job/decoder/layers.py"])
    assert found == {"/job/train.py": "/job/train.py"}


def test_this_holds_for_a_program_that_has_moved_as_well():
    found = matched(
        ["/home/a/job/train.py", "/home/a/job/encoder/layers.py"],
        ["/home/b/job/train.py", "/home/b/job/decoder/layers.py"],
    )
    assert found == {"/home/a/job/train.py": "/home/b/job/train.py"}


def test_two_files_with_one_end_are_not_chosen_from():
    assert matched(["/a/one/util.py", "/a/two/util.py"], ["/b/three/util.py"]) == {}
    assert matched(["/a/one/util.py"], ["/b/three/util.py", "/c/four/util.py"]) == {}


def test_two_packages_have_different_files_of_one_name():
    one, other = "/e/site-packages/lightning/core/trainer.py", "/e/site-packages/transformers/core/trainer.py"
    assert matched([one], [other]) == {}
    assert matched(["/e/site-packages/pip/trainer.py"], ["/home/a/trainer.py"]) == {}


def test_a_package_that_is_installed_in_one_job_and_a_checkout_in_the_other_is_found():
    one, other = "/e/site-packages/mypkg/net.py", "/home/a/src/mypkg/net.py"
    assert matched([one], [other]) == {one: other}


@pytest.mark.parametrize("path", ["", "/", "//", "<stdin>", "x.py", "/" * 5000 + "x.py", "a/" * 3000 + "x.py"])
def test_any_path_has_a_place(path):
    assert place_of(path)
    assert matched([path], ["/home/a/other.py"]) == {}
