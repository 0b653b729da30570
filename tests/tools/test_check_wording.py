"""The check of wording finds plurals, shortened texts and sizes that are made by hand."""

import pytest

PLACE = "src/memlake/jobs/answer.py"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x = f\"{n} row{'s' * (n != 1)}\"", "plural"),
        ("x = f\"{n} class{'es' * (n > 1)}\"", "plural"),
        ("x = f\"{n} row{'' if n == 1 else 's'}\"", "plural"),
        ('x = "rank" if len(ranks) == 1 else "ranks"', "plural"),
        ('x = "files" if n != 1 else "file"', "plural"),
        ('x = "is" if n == 1 else "are"', "plural"),
        ('x = "has" if n == 1 else "have"', "plural"),
        ('x = text if len(text) <= 60 else text[:57] + "..."', "shortens"),
        ('x = f"{text[:57]}..."', "shortens"),
        ('x = f"{text[:20]}...{text[-20:]}"', "shortens"),
        ('x = f"{n // 2**20} MiB"', "size"),
        ('x = f"{n / 1024**3:.2f} GiB of memory"', "size"),
    ],
)
def test_what_is_made_by_hand_is_found(tree, check, line, reason):
    status, said = check("check_wording.py", tree({PLACE: f"n = 1\n{line}\n"}))
    assert status == 1
    assert said.startswith(f"{PLACE}:2: ")
    assert said.count("\n") == 1
    assert reason in said


@pytest.mark.parametrize(
    "line",
    [
        "x = counted(n, 'row')",
        "x = sizes.pop() if len(sizes) == 1 else None",
        'x = "" if n == 1 else "of the first: "',
        'x = f"at least 2 MiB, got {n}"',
        'x = "a view is" if n == 1 else f"{n} views are"',
        "x = 's' * width",
        "x = names[:3] + more",
    ],
)
def test_other_lines_are_accepted(tree, check, line):
    assert check("check_wording.py", tree({PLACE: f"{line}\n"})) == (0, "")


@pytest.mark.parametrize("path", ["src/memlake/wording.py", "src/memlake/units.py", "tools/x.py"])
def test_the_homes_of_the_functions_and_other_folders_are_not_checked(tree, check, path):
    assert check("check_wording.py", tree({path: 'x = f"{text[:57]}..."\n'})) == (0, "")


def test_the_project_itself_makes_nothing_by_hand(check):
    assert check("check_wording.py") == (0, "")
