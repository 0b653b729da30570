"""The check of a release finds versions that differ between the package, the changelog and the C header."""

import pytest

GOOD = {
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-24\n\n- C ABI version 5.\n\n"
    "## [0.1.0] - 2026-11-18\n\n- C ABI version 4.\n",
    "pyproject.toml": '[build-system]\n\n[project]\nname = "x"\nversion = "0.2.0"\n\n[tool.y]\nversion = "9"\n',
    "core/abi/include/memlake.h": "#define MEMLAKE_ABI_VERSION 5\n",
}


def test_versions_that_agree_pass_in_silence(tree, check):
    assert check("check_release.py", tree(GOOD)) == (0, "")


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        (
            "pyproject.toml",
            '"0.2.0"',
            '"0.3.0"',
            "CHANGELOG.md:5: the newest release is 0.2.0; pyproject.toml has 0.3.0",
        ),
        ("CHANGELOG.md", "## [Unreleased]\n", "", "CHANGELOG.md:4: does not begin with the section [Unreleased]"),
        ("CHANGELOG.md", "2026-12-24", "soon", 'CHANGELOG.md:5: "[0.2.0] - soon" is not "[1.2.3] - 2026-01-31"'),
        ("CHANGELOG.md", "2026-12-24", "2026-13-01", 'CHANGELOG.md:5: "[0.2.0] - 2026-13-01" is not'),
        ("CHANGELOG.md", "2026-12-24", "20261224", 'CHANGELOG.md:5: "[0.2.0] - 20261224" is not'),
        ("CHANGELOG.md", "C ABI version 5", "A new function", "CHANGELOG.md:1: names C ABI version 4; core/abi/"),
        (
            "core/abi/include/memlake.h",
            "5",
            "6",
            "CHANGELOG.md:1: names C ABI version 5; core/abi/include/memlake.h has 6",
        ),
        ("core/abi/include/memlake.h", "#define", "// define", "memlake.h has 0"),
    ],
)
def test_a_version_that_differs_is_found(tree, check, path, old, new, message):
    root = tree(GOOD)
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))
    status, said = check("check_release.py", root)
    assert status == 1
    assert message in said


def test_a_changelog_without_a_release_is_found(tree, check):
    status, said = check("check_release.py", tree({**GOOD, "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n"}))
    assert status == 1
    assert "CHANGELOG.md:1: has no release; pyproject.toml has the version 0.2.0" in said
