"""The check of the words reads the glossary's last column and finds a word in every spelling."""

import pytest

GLOSSARY = """
| Word | Means | In CUDA | Not |
|---|---|---|---|
| **driver** | functions | driver API | `backend`, upstream |
| **physical chunk** | memory | `cuMemCreate` | `PhyBlock`, `physical block` |
"""


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("| **driver** | a person | - | - |", '"driver" is defined in line 4'),
        ("| **driver** (of a car) | a person | - | - |", '"driver" is defined in line 4'),
        ("| **view** | in `lake`: a map. In Python: an object | - | - |", '"view" gets a second meaning'),
        ("| **neighbour** | an entry. For blocks: the next one | - | - |", '"neighbour" gets a second meaning'),
    ],
)
def test_a_second_definition_in_the_glossary_is_rejected(tree, check, row, reason):
    status, said = check("check_words.py", tree({"docs/glossary.md": f"{GLOSSARY}{row}\n"}))
    assert status == 1
    assert said.startswith(f"docs/glossary.md:6: {reason}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "row",
    [
        "| **stream clock** | in `lake`: the epochs of a stream | - | - |",
        "| **profile** | how the emulator reads doubtful rules: strict or not | - | - |",
        "| **physical** | said of chunks. It is no noun | - | - |",
    ],
)
def test_another_word_in_the_glossary_is_accepted(tree, check, row):
    assert check("check_words.py", tree({"docs/glossary.md": f"{GLOSSARY}{row}\n"})) == (0, "")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("the backend is loaded", "backend"),
        ("class CudaBackend:", "backend"),
        ("my_backend = 1", "backend"),
        ("two Backends", "backend"),
        ("std::vector<PhyBlock*> blocks;", "PhyBlock"),
        ("phy_block = 1", "PhyBlock"),
        ("a physical block", "physical block"),
        ("PhysicalBlock block;", "physical block"),
    ],
)
def test_an_unwanted_word_is_rejected(tree, check, line, word):
    status, said = check("check_words.py", tree({"docs/glossary.md": GLOSSARY, "src/a.py": f"\n{line}\n"}))
    assert status == 1
    assert said.startswith(f'src/a.py:2: "{word}" is not our word; the glossary says "')


@pytest.mark.parametrize("line", ["upstream", "CUDA", "a block of memory", "backending", "physical memory blocks"])
def test_other_words_pass(tree, check, line):
    assert check("check_words.py", tree({"docs/glossary.md": GLOSSARY, "src/a.py": line})) == (0, "")


def test_a_file_is_blamed_for_its_name_and_not_those_who_cite_it(tree, check):
    written = {"docs/glossary.md": GLOSSARY, "core/backend.hpp": "", "core/a.cpp": '#include "backend.hpp"\n'}
    status, said = check("check_words.py", tree(written))
    assert status == 1
    assert said.startswith("core/backend.hpp:1:")
    assert said.count("\n") == 1


def test_an_unwanted_file_name_is_rejected(tree, check):
    status, said = check("check_words.py", tree({"docs/glossary.md": GLOSSARY, "core/backend.hpp": ""}))
    assert status == 1
    assert said.startswith('core/backend.hpp:1: "backend" is not our word')


@pytest.mark.parametrize("path", ["src/utils.py", "core/common/bytes.hpp", "tests/unit/helpers/a.py"])
def test_a_drawer_is_rejected(tree, check, path):
    status, said = check("check_words.py", tree({"docs/glossary.md": GLOSSARY, path: ""}))
    assert status == 1
    assert "is a drawer" in said


def test_the_drawer_of_the_tests_passes(tree, check):
    assert check("check_words.py", tree({"docs/glossary.md": GLOSSARY, "tests/helpers/a.py": ""})) == (0, "")


def test_the_page_of_the_gmlake_tutorial_may_have_its_names_and_no_other_page(tree, check):
    page = {"docs/glossary.md": GLOSSARY, "docs/guides/gmlake_names.md": "`PhyBlock` is a chunk.\n"}
    assert check("check_words.py", tree(page)) == (0, "")
    status, said = check("check_words.py", tree({**page, "docs/guides/stitch_by_hand.md": "`PhyBlock` is a chunk.\n"}))
    assert status == 1
    assert said.startswith('docs/guides/stitch_by_hand.md:1: "PhyBlock" is not our word')
    status, said = check("check_words.py", tree({**page, "docs/guides/gmlake_names.md": "another backend\n"}))
    assert status == 1
    assert 'docs/guides/gmlake_names.md:1: "backend" is not our word' in said


def test_an_allowed_place_passes(tree, check):
    allowed = {"docs/glossary.md": GLOSSARY, "pyproject.toml": 'build-backend = "scikit_build_core.build"\n'}
    assert check("check_words.py", tree(allowed)) == (0, "")
