"""Results print as the commands do, as text and as HTML, and have a short repr."""

import contextlib
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import memlake
from helpers.torch_snapshots import MIB, Refused, TorchJob
from memlake.cli import main
from memlake.hardware import Finding, Health
from memlake.tables.page import Page
from memlake.trace import Op

EVIL = "<script>alert('&')</script>"


@pytest.fixture
def file(tmp_path):
    """The snapshot of a small job with a private pool that died."""
    job = TorchJob(200)
    job.alloc(4, (0, 7))
    kept = [job.alloc(12) for _ in range(10)]
    for block in kept[::2]:
        job.free(block)
    with pytest.raises(Refused):
        job.alloc(150)
    return str(job.save(tmp_path / "snapshot.pickle"))


@pytest.fixture
def evil():
    """A trace whose call sites are HTML."""
    ops = [Op.ALLOCATE, Op.ALLOCATE, Op.FREE]
    return memlake.Trace(ops, [0, 1, 0], [40 * MIB, 20 * MIB, 0], tag=[0, 1, 0], tags=[EVIL, "</td></table><b>"])


def results(given, capacity="1GiB"):
    return {
        "replay": memlake.replay(given, "caching", capacity, timeline=3),
        "compare": memlake.compare(given, capacity),
        "fit": memlake.fit(given),
        "advise": memlake.advise(given, capacity),
        "show": memlake.overview(given),
        "peak": memlake.Trace.load(given).peak() if isinstance(given, str) else given.peak(),
        # Not examine(): in the process of the tests other tests have made the emulator its driver.
        "doctor": Health(
            (Finding("memlake", "version", "ok", "1"), Finding("system", "limit", "note", "2", "Raise it."))
        ),
    }


def without_times(text):
    """The text without CPU times, and without what the width of a time does to a column."""
    return re.sub(r" +", " ", re.sub(r"-+", "-", re.sub(r"\d+( ns)?$", "", text, flags=re.MULTILINE)))


def printed(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(arguments)
    return out.getvalue()


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("replay", ["--policy", "caching", "--capacity", "1GiB", "--timeline", "3"]),
        ("compare", ["--capacity", "1GiB"]),
        ("fit", []),
        ("advise", ["--capacity", "1GiB"]),
        ("show", []),
    ],
)
def test_a_result_prints_what_its_command_prints(file, command, arguments):
    result = results(file)[command]
    assert without_times(str(result) + "\n") == without_times(printed(command, file, *arguments))
    assert json.loads(printed(command, file, *arguments, "--json")).keys() - {"trace"} == result.to_json().keys()


def test_an_overview_prints_as_many_sites_and_the_steps_if_asked_to(file):
    found = memlake.overview(file)
    assert found.to_text(num_sites=1, steps=True) + "\n" == printed("show", file, "--sites", "1", "--steps")
    assert str(found.peak) in str(found)


def test_every_text_of_a_report_is_escaped_in_html(evil):
    for name, result in results(evil).items():
        html = result._repr_html_()
        assert html == result.to_html()
        assert "<script" not in html, name
        assert "<b>" not in html, name
        balance = Balance()
        balance.feed(html)
        assert balance.open == [], name
        assert balance.seen <= {"div", "pre", "p", "table", "thead", "tbody", "tr", "th", "td"}, name
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in memlake.overview(evil).to_html()


class Balance(HTMLParser):
    """The elements that are open at the end of a text, and all that were opened."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attributes):
        assert dict(attributes).keys() <= {"class", "style"}
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_has_the_same_words_as_the_text(file):
    for result in results(file).values():
        html = re.sub(r"<[^>]*>", " ", result.to_html()).replace("&lt;", "<").replace("&gt;", ">")
        words = html.replace("&#x27;", "'").replace("&quot;", '"').replace("&amp;", "&").split()
        text = [word for word in result.to_text().split() if set(word) != {"-"} or len(word) == 1]
        assert sorted(words) == sorted(text)


def test_a_repr_is_one_short_line(file, evil):
    for given in (file, evil):
        for result in results(given).values():
            assert re.fullmatch(r"<memlake\.\w+.*>", repr(result))
            assert len(repr(result)) <= 160


def test_what_a_terminal_would_obey_is_not_in_a_page():
    page = Page()
    page.line("a\x1b[2Jb")
    page.paragraph("c\x07d")
    page.table(("e\x00",), [("f\rg",)])
    for text in (page.to_text(), page.to_html()):
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


def test_what_the_commands_print_are_values(file):
    compared = memlake.compare(file, "1GiB")
    first = compared[0]
    assert first.num_memory_calls == sum(n for call, n in first.driver_calls.items() if call.startswith("cuMem"))
    assert first.stalls == first.num_alloc_retries + first.host_waits
    assert first.held_over_live == first.peak_held - first.peak_live
    assert first.num_rows == compared.num_rows == len(memlake.Trace.load(file))
    assert first.notes == compared.notes != ()
    assert compared.after_oom.startswith("The job died at its last request")
    advice = memlake.advise(file, "1GiB", needs="ipc")
    expandable = advice.comparison["expandable"]
    assert advice.ruled_out_by(expandable) == ("ipc",)
    assert advice.ruled_out_by(advice.comparison["caching"]) == ()
    assert advice.overhead_sentence in " ".join(str(advice).split())
    split = memlake.overview(file).at_end
    assert sum(part.nbytes or 0 for part in split.parts) == split.held


def test_tables_are_loaded_only_when_a_result_is_printed(file):
    code = (
        "import sys, memlake\n"
        f"found = memlake.compare({file!r}, '1GiB')\n"
        "assert not any(name.startswith('memlake.tables') for name in sys.modules), sys.modules\n"
        "str(found)\n"
        "assert 'memlake.tables.comparison' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
