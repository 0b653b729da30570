"""The check of the guards finds every sentence that no test expects, and every test of a sentence that is not there."""

import pytest

CHECK = "core/pool/pool_check.cpp"
TABLE = "tests/native/test_guards_pool.cpp"


def body(*calls: str) -> str:
    return "void f(InvariantReport& report) {\n" + "".join(f"  {call}\n" for call in calls) + "}\n"


def table(*sentences: str, file: str = CHECK) -> str:
    rows = "".join(f'{{"{sentence}", "a breach", [] {{}}}},\n' for sentence in sentences)
    return f'expect({{"{file}",\n{{{rows}}}}});\n'


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ('report.add("I1: a gap");', "I1: a gap"),
        ('report.add("I1: ", place(block), " is " "empty");', "I1: * is empty"),
        ('report.add("I7: ", live.count, ", ", f(a, "b"), " are live");', "I7: *, * are live"),
        ('if (a) report.add("I5: ",\n    place(b), // why, "not"\n  " is gone");', "I5: * is gone"),
        ('report->add("I5: \\"quoted\\" (", x, ")");', 'I5: \\"quoted\\" (*)'),
        ('report.add("I3: ", is_a ? "a" : name);', "I3: *"),
    ],
)
def test_a_sentence_needs_a_test(tree, check, call, sentence):
    root = tree({CHECK: body(call), TABLE: ""})
    status, said = check("check_guards.py", root)
    assert status == 1
    assert said == f'{CHECK}:2: no test breaks it and sees "{sentence}"; add one to test_guards_*\n'
    assert check("check_guards.py", tree({TABLE: table(sentence)})) == (0, "")


def test_both_ends_of_a_condition_need_a_test(tree, check):
    source = body('report.add("I3: ", place(b), is_on ? " is on" : " is off", ", but");')
    status, said = check("check_guards.py", tree({CHECK: source, TABLE: table("I3: * is on, but")}))
    assert status == 1
    assert 'sees "I3: * is off, but"' in said
    assert said.count("\n") == 1
    both = table("I3: * is on, but", "I3: * is off, but")
    assert check("check_guards.py", tree({TABLE: both})) == (0, "")


def test_a_test_of_another_file_does_not_count(tree, check):
    elsewhere = "core/policies/lake/lake_check.cpp"
    written = {CHECK: body('report.add("I1: a gap");'), TABLE: table("I1: a gap", file=elsewhere)}
    status, said = check("check_guards.py", tree(written))
    assert status == 1
    assert f'{CHECK}:2: no test breaks it and sees "I1: a gap"' in said
    assert f'{TABLE}:2: expects "I1: a gap", which {elsewhere} never says' in said


def test_a_sentence_that_two_calls_say_is_rejected(tree, check):
    written = {CHECK: body('report.add("I1: ", a);', 'report.add("I1: ", b);'), TABLE: table("I1: *")}
    status, said = check("check_guards.py", tree(written))
    assert status == 1
    assert said == f'{CHECK}:3: says the same as line 2, "I1: *": tell them apart\n'


def test_a_test_of_a_sentence_that_is_gone_is_rejected(tree, check):
    written = {CHECK: body('report.add("I1: a gap");'), TABLE: table("I1: a gap", "I2: gone")}
    status, said = check("check_guards.py", tree(written))
    assert status == 1
    assert said == f'{TABLE}:3: expects "I2: gone", which {CHECK} never says\n'


def test_a_sentence_in_a_comment_is_no_test(tree, check):
    commented = "// " + table("I1: a gap").replace("\n", "\n// ")
    status, _ = check("check_guards.py", tree({CHECK: body('report.add("I1: a gap");'), TABLE: commented}))
    assert status == 1


def test_a_report_by_another_name_is_rejected(tree, check):
    status, said = check("check_guards.py", tree({CHECK: "void f(InvariantReport& broken) {}\n", TABLE: ""}))
    assert status == 1
    assert said.startswith(f'{CHECK}:1: an InvariantReport is called "broken"')


def test_a_sentence_over_two_lines_of_a_table_is_one(tree, check):
    broken_over = table("I1: a gap").replace("a gap", 'a "\n "gap')
    assert check("check_guards.py", tree({CHECK: body('report.add("I1: a gap");'), TABLE: broken_over})) == (0, "")
