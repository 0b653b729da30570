"""The documents become pages whose links lead to pages, and a link that leads nowhere fails the build."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "tools" / "site"
sys.path.insert(0, str(SITE))

from build_site import SHIM_TAG, add_shim, loaded_from_a_network, settings, without_colons  # noqa: E402
from docstring_pages import MODULES, public_names  # noqa: E402
from markdown_lists import separated  # noqa: E402
from pages import pages, with_site_links  # noqa: E402


def test_links_lead_to_the_places_of_the_pages():
    def changed(document, text):
        return with_site_links(document, text)

    assert changed("docs/README.md", "[a](../CONTRIBUTING.md)") == "[a](project/contributing.md)"
    assert changed("docs/guides/x.md", "[a](../reference/api.md#pools)") == "[a](../reference/api.md#pools)"
    assert changed("CONTRIBUTING.md", "[a](docs/glossary.md)") == "[a](../glossary.md)"
    assert changed("docs/guides/x.md", "![a](../images/y.svg)") == "![a](../images/y.svg)"
    assert changed("docs/guides/x.md", "[a](../../examples/y.py)") == "[a](../source/examples_y.py.md)"
    assert changed("docs/x.md", "[a](https://example.org/b)") == "[a](https://example.org/b)"
    assert changed("docs/x.md", "```\n[a](../y.md)\n```\n") == "```\n[a](../y.md)\n```\n"


def test_every_link_of_every_page_leads_to_a_page_or_a_file_of_the_site():
    made = pages(ROOT)
    files = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert len(made) > 60
    for name, text in made.items():
        prose = re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)", prose):
            if not re.match(r"[a-z]+:", target):
                there = (Path("/", name).parent / target).resolve().relative_to("/")
                assert str(there) in made or str(there) in files, f"{name} links to {target}"


def test_every_module_with_public_names_has_a_page_of_docstrings():
    made = pages(ROOT)
    for module in MODULES:
        page = made[f"reference/python/{module}.md"]
        assert page.startswith(f"# {module}\n")
        assert "::: memlake" in page
    pool = made["reference/python/memlake.pool.md"]
    assert "::: memlake.pool.Pool\n" in pool
    # A name that `import memlake` offers is shown once: there, or on the page of its module.
    assert "::: memlake.emulate\n" in made["reference/python/memlake.md"]
    assert "::: memlake.Pool\n" not in made["reference/python/memlake.md"]


def test_a_module_without_a_list_of_its_names_is_an_error(tmp_path):
    (tmp_path / "x.py").write_text("def f(): ...\n")
    with pytest.raises(ValueError, match="has no __all__"):
        public_names(tmp_path / "x.py")


def test_a_list_is_separated_from_the_paragraph_above_it_and_code_is_not_touched():
    assert separated("It fails\n- if a\n- if b\n") == "It fails\n\n- if a\n- if b\n"
    assert separated("- a\n  goes on\n- b\n") == "- a\n  goes on\n- b\n"
    assert separated("```\nx\n- y\n```\n") == "```\nx\n- y\n```\n"


def test_the_two_colons_of_an_example_in_a_docstring_are_not_shown():
    assert without_colons("<p>::</p><pre>x</pre>") == "<pre>x</pre>"
    assert without_colons("<p>For example::</p>") == "<p>For example:</p>"
    assert without_colons("<code>a::b</code>") == "<code>a::b</code>"


def test_what_a_page_loads_from_a_network_is_found():
    assert loaded_from_a_network(SHIM_TAG) == ["https://unpkg.com/iframe-worker/shim"]
    assert loaded_from_a_network('<link rel="stylesheet" href="http://a.b/c.css">') == ["http://a.b/c.css"]
    assert loaded_from_a_network('<a href="https://a.b">a</a><script src="../c.js"></script>') == []


def test_pages_get_the_script_of_the_search_from_the_site(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm
    (tmp_path / "assets/javascripts").mkdir(parents=True)
    (tmp_path / "guides").mkdir()
    for name in ("index.html", "guides/a.html"):
        (tmp_path / name).write_text(f"<head>{SHIM_TAG}</head>")
    add_shim(tmp_path)
    assert (tmp_path / "guides/a.html").read_text() == (
        '<head><script src="../assets/javascripts/iframe-worker.js"></script></head>'
    )
    assert (tmp_path / "index.html").read_text() == (
        '<head><script src="assets/javascripts/iframe-worker.js"></script></head>'
    )
    assert (tmp_path / "assets/javascripts/iframe-worker.js").exists()


def test_another_builder_that_loads_the_script_otherwise_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "assets/javascripts").mkdir(parents=True)
    (tmp_path / "index.html").write_text("<head></head>")
    with pytest.raises(SystemExit, match="does not load"):
        add_shim(tmp_path)


def test_the_parts_of_the_menu_that_are_folders_are_filled():
    text = "- Decisions: DECISIONS\n- Docstrings: DOCSTRINGS\n- Project: PROJECT\n"
    filled = settings(text, ["design/0001-a.md", "glossary.md", "reference/python/memlake.md"])
    assert filled.startswith(
        "- Decisions: [design/0001-a.md]\n- Docstrings: [reference/python/memlake.md]\n- Project: [pro"
    )


def test_every_page_is_in_the_menu_once():
    settings = (SITE / "site.yml").read_text()
    menu = re.findall(r"^ +- ([\w/]+\.md)$|: ([\w/]+\.md)$", settings, re.MULTILINE)
    named = [first or second for first, second in menu]
    assert len(named) == len(set(named))
    docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    # The builder fills these parts of the menu itself.
    assert set(named) == {name for name in docs if not name.startswith("design/")}


@pytest.mark.skipif(
    not Path(sys.executable).with_name("zensical").exists(),
    reason="the builder of the site is not installed: make docs",
)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    """A copy of the settings with two pages, one of which links to a page that does not exist."""
    text = (SITE / "site.yml").read_text().partition("\nnav:")[0].replace("../../src", str(ROOT / "src"))
    (tmp_path / "mkdocs.yml").write_text(text)
    (tmp_path / "pages").mkdir()
    for folder in ("images", "stylesheets"):
        shutil.copytree(ROOT / "docs" / folder, tmp_path / "pages" / folder)
    builder = [Path(sys.executable).with_name("zensical"), "build", "--strict"]

    def build(page):
        (tmp_path / "pages/index.md").write_text(page)
        return subprocess.run(builder, cwd=tmp_path, capture_output=True, text=True, check=False)

    good = build("# One\n\n[itself](index.md)\n")
    assert (good.returncode, "warning" in (good.stdout + good.stderr).lower()) == (0, False)
    bad = build("# One\n\n[nowhere](nowhere.md)\n")
    assert bad.returncode != 0 or "warning" in (bad.stdout + bad.stderr).lower()
