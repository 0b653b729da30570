"""The check of the documents finds links and paths that lead nowhere."""

import pytest

GOOD = {
    "README.md": "[The guide](docs/guide.md#second-part), `core/base/bytes.hpp`, `core/`, `src/*.py`, `core/NAME/`.\n",
    "docs/guide.md": "# Guide\n## Second part!\n[back](../README.md) [here](#guide) [out](https://example.org)\n",
    "core/base/bytes.hpp": "// docs/guide.md says why\n",
    "src/a.py": "# not/ours/at_all.py\n",
}


def test_good_documents_pass_in_silence(tree, check):
    assert check("check_docs.py", tree(GOOD)) == (0, "")


def test_a_code_fence_is_not_read(tree, check):
    fenced = "```\n[x](nowhere.md) `core/nowhere.hpp`\n```\n"
    assert check("check_docs.py", tree({**GOOD, "docs/more.md": fenced})) == (0, "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[x](nowhere.md)", "links to nowhere.md, which does not exist"),
        ("[x](guide.md#third-part)", "links to guide.md#third-part, but that page has no such heading"),
        ("`core/base/address.hpp`", "cites core/base/address.hpp, which does not exist"),
        ("`core/vmm/`", "cites core/vmm/, which does not exist"),
        ("`src/NAME.md`", "cites src/NAME.md, which does not exist"),
        ("`src/*.cpp`", "cites src/*.cpp, which does not exist"),
        ("`core/base/words.hpp:12`", "cites core/base/words.hpp, which does not exist"),
    ],
)
def test_what_leads_nowhere_in_a_document_is_rejected(tree, check, line, reason):
    status, said = check("check_docs.py", tree({**GOOD, "docs/bad.md": f"fine\n{line}\n"}))
    assert (status, said) == (1, f"docs/bad.md:2: {reason}\n")


def test_a_path_in_a_comment_that_does_not_exist_is_rejected(tree, check):
    status, said = check("check_docs.py", tree({**GOOD, "core/base/a.hpp": "// as docs/gone.md explains\n"}))
    assert (status, said) == (1, "core/base/a.hpp:1: cites docs/gone.md, which does not exist\n")
