"""The list of the tests that `make test-quick` leaves out."""

import re

import pytest

from helpers.slow_tests import BUDGET, LIST, TESTS, listed, name_of, text_of


def missing(names, tests):
    """Those of the names in a list that are no test of a folder."""
    found = []
    for name in names:
        path, function = tests / name.partition("::")[0], name.rpartition("::")[2]
        if not path.is_file() or not re.search(rf"^ *def {function}\(", path.read_text(), re.MULTILINE):
            found.append(name)
    return found


def test_every_listed_test_exists():
    """Write the list anew with `make slow-tests`, or correct the path of a test that has moved."""
    assert missing(listed(LIST.read_text()), TESTS) == []


def test_the_list_is_as_the_tool_writes_it():
    assert text_of(listed(LIST.read_text())) == LIST.read_text()


def test_a_listed_test_that_does_not_exist_is_found(tmp_path):
    (tmp_path / "test_here.py").write_text("def test_one(): pass\n\ndef test_one_more(): pass\n")
    names = ["test_here.py::test_one", "test_here.py::test_on", "test_gone.py::test_one"]
    assert missing(names, tmp_path) == names[1:]


def test_a_test_is_slow_if_one_of_its_cases_needs_more_than_the_budget():
    text = text_of({"unit/test_a.py::test_slow": 2 * BUDGET, "unit/test_a.py::test_quick": BUDGET / 2})
    assert listed(text) == {"unit/test_a.py::test_slow": 2 * BUDGET}
    assert name_of("tests/unit/test_a.py::test_slow[a::b-[c]]") == "unit/test_a.py::test_slow"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_the_cpu_time_of_every_test_is_measured_and_the_listed_ones_are_left_out(pytester, workers):
    pytester.makeconftest(f"""
        import pathlib, sys
        import pytest
        sys.path.insert(0, {str(TESTS)!r})
        from helpers import slow_tests
        slow_tests.LIST = pathlib.Path("list.txt").resolve()

        def pytest_configure(config):
            config.addinivalue_line("markers", "slow: takes long")
            if not slow_tests.LIST.exists():
                config.pluginmanager.register(slow_tests.Measure())

        def pytest_collection_modifyitems(items):
            if slow_tests.LIST.exists():
                slow_tests.mark(items)
    """)
    work = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    pytester.makepyfile(f"""
        import subprocess, sys, time

        def work():
            subprocess.run([sys.executable, "-c", {work!r}], check=True)

        def test_sleeps(): time.sleep(0.3)

        class TestInProcesses:
            def test_works(self): work()
    """)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *workers).assert_outcomes(passed=2)
    name = "test_the_cpu_time_of_every_test_is_measured_and_the_listed_ones_are_left_out.py"
    assert list(listed((pytester.path / "list.txt").read_text())) == [f"{name}::TestInProcesses::test_works"]
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-m", "not slow").assert_outcomes(passed=1, deselected=1)
