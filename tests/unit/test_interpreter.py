"""Interpreters that cannot use memlake are told so when they import it."""

import sys

import pytest

from helpers.processes import run_python


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the module has another name there")
@pytest.mark.parametrize("before", ["", "import memlake._native"])
def test_a_subinterpreter_is_refused_with_a_reason(before):
    done = run_python(f"""
        {before}
        import _xxsubinterpreters as interpreters
        program = '''if True:
            try:
                import memlake
                memlake.emulate()
            except ImportError as error:
                with open({{!r}}, "w") as file:
                    file.write(str(error))
        '''
        import os, tempfile
        path = os.path.join(tempfile.mkdtemp(), "said")
        interpreter = interpreters.create()
        interpreters.run_string(interpreter, program.format(path))
        interpreters.destroy(interpreter)
        print(open(path).read())
    """)
    assert done.returncode == 0, done
    assert "memlake works in the main interpreter of a process only" in done.stdout


def test_a_python_that_runs_without_the_gil_is_refused_with_a_reason():
    # This Python has a GIL, and no such function.
    done = run_python("""
        import sys
        sys._is_gil_enabled = lambda: False
        try:
            import memlake._native
        except ImportError as error:
            print(error)
    """)
    assert done.returncode == 0, done
    assert "memlake needs the GIL, and this Python runs without it" in done.stdout


def test_a_free_threaded_python_with_its_gil_on_is_served():
    done = run_python("""
        import sys
        sys._is_gil_enabled = lambda: True
        import memlake
        memlake.emulate(memory="64MiB")
    """)
    assert (done.returncode, done.stderr) == (0, "")
