"""30 public functions pass, 31 do not; what is no public function of the class itself is not counted."""

import pytest


def functions(count: int) -> str:
    return "".join(f"  void f{number}(int a, std::map<int, int> b = {{}});\n" for number in range(count))


def many(head: str, count: int = 31) -> str:
    return f"namespace memlake {{\n{head} {{\n public:\n{functions(count)}}};\n}}\n"


def test_30_public_functions_pass(tree, check):
    assert check("check_classes.py", tree({"core/pool/pool.hpp": many("class Pool", 30)})) == (0, "")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("class Pool", "Pool"),
        ("class Pool final : public Base<int>, private Other", "Pool"),
        ("template <class Work>\nclass Pool", "Pool"),
        ("struct alignas(64) Pool", "Pool"),
    ],
)
@pytest.mark.parametrize("folder", ["core/pool", "emulator/pools", "bindings"])
def test_31_public_functions_are_rejected(tree, check, head, name, folder):
    status, said = check("check_classes.py", tree({f"{folder}/pool.hpp": many(head)}))
    line = 2 + head.count("\n")
    assert status == 1
    assert said == (
        f"{folder}/pool.hpp:{line}: {name} has 31 public functions; the limit is 30: split it by responsibility\n"
    )


@pytest.mark.parametrize(
    "member",
    [
        "[[nodiscard]] int size() const noexcept { return size_; }",
        "template <class Visit>\n  void for_each(Visit&& visit) const { visit(1); }",
        "virtual bool is_done(int ticket) = 0;",
        "bool is_done(int ticket) override;",
        "static int make(std::function<int(int)> how);",
        "bool operator==(const A&) const = default;",
        "auto begin() const { return std::map<int, int>{}; }",
    ],
)
def test_every_kind_of_function_is_counted(tree, check, member):
    source = f"class A {{\n public:\n{functions(30)}  {member}\n}};\n"
    status, said = check("check_classes.py", tree({"core/a.hpp": source}))
    assert (status, said) == (
        1,
        "core/a.hpp:1: A has 31 public functions; the limit is 30: split it by responsibility\n",
    )


@pytest.mark.parametrize(
    "member",
    [
        "A(int a) : a_{a}, b_(a) { f0(a); }",
        "explicit A(std::string text);",
        "virtual ~A() = default;",
        "A& operator=(const A&) = delete;",
        "void f0(long) = delete;",
        "friend void swap(A& a, A& b);",
        "friend struct test::Sabotage;",
        "using Tell = std::function<void(int)>;",
        "int field = f(1);",
        "std::vector<int> fields{f(1), f(2)};",
        "void (*pointer)(int) = nullptr;",
        "enum class Kind { a, b };",
        "// void f30();",
        "struct B { void g(); void h(); };",
        '#include "functions.inc"',
        "private:\n  void f30();",
    ],
)
def test_what_is_no_public_function_of_the_class_is_not_counted(tree, check, member):
    source = f"class A {{\n public:\n{functions(30)}  {member}\n}};\n"
    assert check("check_classes.py", tree({"core/a.hpp": source})) == (0, "")


def test_a_nested_class_is_a_class_of_its_own(tree, check):
    source = f"class A {{\n  struct B {{\n{functions(31)}  }};\n}};\n"
    status, said = check("check_classes.py", tree({"core/a.hpp": source}))
    assert status == 1
    assert said.startswith("core/a.hpp:2: A::B has 31 public functions")


def test_functions_of_a_class_without_public_ones_pass(tree, check):
    assert check("check_classes.py", tree({"core/a.hpp": f"class A {{\n{functions(31)}}};\n"})) == (0, "")


def test_python_and_the_tests_are_not_read(tree, check):
    assert check("check_classes.py", tree({"tests/native/a.hpp": many("class A"), "src/a.hpp": many("class A")})) == (
        0,
        "",
    )
