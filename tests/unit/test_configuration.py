"""Every environment variable that memlake reads is explained in docs/reference/configuration.md."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text()
READ = re.compile(r'(?:environ(?:\.get\(|\[)|getenv\()"(\w+)"')


def variables():
    for folder, pattern in (("src", "*.py"), ("core", "*.cpp"), ("emulator", "*.cpp"), ("bindings", "*.cpp")):
        for path in (ROOT / folder).rglob(pattern):
            yield from READ.findall(path.read_text())


def test_every_variable_is_on_the_page():
    found = set(variables())
    assert {"MEMLAKE_DRIVER", "MEMLAKE_EMULATOR", "MEMLAKE_CONF", "MEMLAKE_CACHE", "CXX"} <= found
    assert [name for name in sorted(found) if f"`{name}`" not in PAGE] == []


def test_every_variable_of_memlake_on_the_page_is_read():
    sources = "".join(
        path.read_text()
        for folder in ("src", "core", "emulator")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".cpp")
    )
    assert [name for name in set(re.findall(r"`(MEMLAKE_\w+)`", PAGE)) if f'"{name}"' not in sources] == []
