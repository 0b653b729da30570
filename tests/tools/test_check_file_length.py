"""500 lines pass, 501 do not."""


def test_500_lines_pass(tree, check):
    assert check("check_file_length.py", tree({"src/a.py": "x\n" * 500})) == (0, "")


def test_501_lines_are_rejected(tree, check):
    status, said = check("check_file_length.py", tree({"core/a.cpp": "x\n" * 501}))
    assert status == 1
    assert said == "core/a.cpp:501: 501 lines; the limit is 500: split it by noun\n"


def test_what_tools_made_is_not_read(tree, check):
    long = "x\n" * 501
    assert check("check_file_length.py", tree({"build/a.cpp": long, ".venv/lib/b.py": long})) == (0, "")
