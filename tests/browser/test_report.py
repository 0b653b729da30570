"""The report in a real browser: it opens, zooms, moves the map, filters, and takes every text for text."""

from pathlib import Path

import pytest

import memlake
from helpers.long_trace import long_trace
from helpers.torch_snapshots import TorchJob, roomy_job, scattered_job, state_job
from memlake.html_report import report_of_diff
from memlake.trace import Trace

HOSTILE = "</script><script>window.owned=1</script><img src=x onerror=window.owned=1>"
LONG = "long" * 400
RANGE = (
    "return Number(document.getElementById('timeline-text').textContent.match(/to ([0-9,]+) of/)[1].replace(/,/g, ''))"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def long_page(pages):
    """The report of a trace with more than a million rows, under three policies."""
    path = pages / "long.html"
    memlake.report(long_trace(), "64GiB", ["caching", "expandable", "lake"]).save(path)
    return path


@pytest.fixture(scope="module")
def dead_page(pages):
    """The report of a snapshot with stacks, of a job that died of fragmentation."""
    path = pages / "dead.html"
    memlake.report(scattered_job().save(pages / "dead.pickle")).save(path)
    return path


@pytest.fixture(scope="module")
def ranks_page(pages):
    """The report of two ranks, one of which died."""
    folder = pages / "ranks"
    folder.mkdir()
    roomy_job(300).save(folder / "rank0.pickle")
    scattered_job().save(folder / "rank1.pickle")
    path = pages / "ranks.html"
    memlake.report(folder).save(path)
    return path


@pytest.fixture(scope="module")
def diff_page(pages):
    """The report of two files, the second of which has more of one call site."""
    before, after = TorchJob(), TorchJob()
    for job, number in ((before, 1), (after, 3)):
        for _ in range(number):
            job.alloc_at("/home/me/train.py:1 forward", 20)
    traces = [Trace.load(job.save(pages / f"{name}.pickle")) for name, job in (("old", before), ("new", after))]
    path = pages / "diff.html"
    report_of_diff(*traces, ("old.pickle", "new.pickle")).save(path)
    return path


@pytest.fixture(scope="module")
def lengths_page(pages):
    """The report of a job with a short and a very long call site."""
    job = TorchJob()
    for name in ("short", LONG):
        job.alloc_at(f"/home/me/{name}.py:1 {name}", 20)
    path = pages / "lengths.html"
    memlake.report(job.save(pages / "lengths.pickle")).save(path)
    return path


def pixels(browser, canvas):
    """What a canvas shows, as a text that changes with it."""
    return browser.run("return document.getElementById(arguments[0]).toDataURL()", canvas)


def text(browser, name):
    return browser.run("return document.getElementById(arguments[0]).textContent", name)


def test_a_page_of_a_million_rows_is_small_and_opens(opened, long_page):
    assert long_page.stat().st_size < 15 * 2**20
    page = opened(long_page)
    assert "1,124,856 rows" in text(page, "facts")
    assert page.run("return document.querySelectorAll('*').length") < 5000
    assert page.run("return document.querySelectorAll('#timeline-chart canvas').length") == 1


def test_a_page_loads_nothing(opened, long_page):
    page = opened(long_page)
    assert page.run("return performance.getEntriesByType('resource').length") == 0


def test_a_drag_zooms_every_chart_and_a_button_shows_all_again(opened, long_page):
    page = opened(long_page)
    page.run("document.getElementById('timeline').scrollIntoView({behavior: 'instant'})")
    assert page.run(RANGE) == 1_124_855
    box = page.run(
        "const b = document.querySelector('#timeline-chart .u-over').getBoundingClientRect(); "
        "return [b.left, b.top, b.width, b.height]"
    )
    left, top, width, height = (int(number) for number in box)
    page.drag((left + width // 4, top + height // 2), (left + width // 2, top + height // 2))
    zoomed = page.run(RANGE)
    assert 0.48 * 1_124_855 < zoomed < 0.52 * 1_124_855
    page.run("document.getElementById('zoom-all').click()")
    assert page.run(RANGE) == 1_124_855


def test_keys_zoom_and_move_the_timeline(opened, long_page):
    page = opened(long_page)
    page.run("document.getElementById('timeline-chart').focus()")
    page.press("+")
    near = page.run(RANGE)
    assert near < 1_124_855
    page.press("\ue014")  # the right arrow
    assert page.run(RANGE) > near
    page.press("0")
    assert page.run(RANGE) == 1_124_855


def test_a_step_can_be_chosen(opened, long_page):
    page = opened(long_page)
    page.run("const s = document.getElementById('step'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    assert "step 2." in text(page, "timeline-text")


def test_the_slider_moves_the_map_and_the_line_in_the_charts(opened, long_page):
    page = opened(long_page)
    before = pixels(page, "map-canvas-1"), text(page, "moment-text")
    page.run("const m = document.getElementById('moment'); m.value = 30; m.dispatchEvent(new Event('input'))")
    page.wait_for(f"document.getElementById('moment-text').textContent !== {before[1]!r}")
    assert "moment 31 of" in text(page, "moment-text")
    page.run("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert pixels(page, "map-canvas-1") != before[0]


def test_a_line_of_the_timeline_can_be_hidden(opened, long_page):
    page = opened(long_page)
    pressed = "return [...document.querySelectorAll('#series .chip')].map((one) => one.getAttribute('aria-pressed'))"
    assert page.run(pressed) == ["true"] * 4
    page.run("document.querySelector('#series .chip').click()")
    page.wait_for("document.querySelector('#series .chip').getAttribute('aria-pressed') === 'false'")
    assert page.run(pressed) == ["false", "true", "true", "true"]


def test_a_map_shows_another_policy(opened, long_page):
    page = opened(long_page)
    before = page.run("return document.getElementById('map-canvas-1').getAttribute('aria-label')")
    assert before.startswith("Address map of lake after row")
    page.run("const s = document.getElementById('map-policy-1'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    page.wait_for("document.getElementById('map-canvas-1').getAttribute('aria-label').includes('of expandable')")


def test_a_click_in_the_timeline_chooses_the_moment(opened, dead_page):
    page = opened(dead_page)
    page.run("document.getElementById('timeline').scrollIntoView({behavior: 'instant'})")
    box = page.run(
        "const b = document.querySelector('#timeline-chart .u-over').getBoundingClientRect(); return [b.left, b.top]"
    )
    place = (int(box[0]) + 3, int(box[1]) + 60)
    page.drag(place, place)
    page.wait_for("document.getElementById('moment-text').textContent.includes('(moment 1 of')")


def test_the_keyboard_reads_the_blocks_of_a_map(opened, dead_page):
    page = opened(dead_page)
    page.run("document.getElementById('map-canvas-0').focus()")
    page.press("\ue014")
    assert "40 MiB free" in text(page, "map-hover")
    page.press("\ue014")
    assert "40 MiB in use, train.py:12 forward, stream 0" in text(page, "map-hover")


def test_the_verdict_and_the_line_to_paste_are_shown(opened, dead_page):
    page = opened(dead_page)
    assert text(page, "outcome") == "ran out of memory"
    assert "Verdict: enough but scattered" in text(page, "verdict-text")
    assert "expandable_segments:True" in text(page, "advice-lines")


def test_search_filters_the_call_sites_and_marks_the_flame_graph(opened, pages):
    job = TorchJob()
    for place in ("/home/me/train.py:1 forward", "/home/me/train.py:9 loss", "/home/me/model.py:4 attention"):
        job.alloc_at(place, 20)
    path = pages / "sites.html"
    memlake.report(job.save(pages / "sites.pickle")).save(path)
    page = opened(path)
    assert page.run("return document.querySelectorAll('#sites tbody tr').length") == 3
    before = pixels(page, "flame"), pixels(page, "map-canvas-0")
    page.run("const s = document.getElementById('search'); s.value = 'ATTEN'; s.dispatchEvent(new Event('input'))")
    assert page.run("return document.querySelectorAll('#sites tbody tr').length") == 1
    assert "1 of 3 call sites match, 20 MiB" in text(page, "search-text")
    assert pixels(page, "flame") != before[0]
    assert pixels(page, "map-canvas-0") != before[1]


def test_the_flame_graph_zooms_into_a_function_by_keys(opened, dead_page):
    page = opened(dead_page)
    page.run("document.getElementById('flame').focus()")
    page.press("\ue015")  # down
    assert text(page, "flame-text").startswith("forward (/home/someone/train.py:12): 960 MiB, 100.0 %")


def test_names_from_a_file_are_only_text(opened, pages):
    job = TorchJob()
    job.frames_now = [{"filename": f"/home/me/{HOSTILE}.py", "line": 1, "name": HOSTILE}]
    job.alloc(20)
    trace = Trace.load(job.save(pages / "hostile.pickle"))
    path = pages / "hostile.html"
    report_of_diff(trace, trace, (f"A{HOSTILE}", f"B{HOSTILE}")).save(path)
    assert HOSTILE not in path.read_text()
    page = opened(path)
    assert page.run("return window.owned === undefined && document.images.length === 0")
    assert HOSTILE in text(page, "title")
    assert HOSTILE in text(page, "sites")


def test_ranks_are_small_charts_the_worst_first_and_one_is_chosen(opened, ranks_page):
    page = opened(ranks_page)
    names = "return [...document.querySelectorAll('.multiple b')].map((one) => one.textContent)"
    assert page.run(names) == ["rank 1", "rank 0"]
    assert text(page, "title") == "rank 1"
    page.run("document.querySelectorAll('.multiple')[1].click()")
    page.wait_for("document.getElementById('title').textContent === 'rank 0'")


def test_a_difference_shows_what_grew(opened, diff_page):
    page = opened(diff_page)
    assert "+40 MiB" in text(page, "diff-sites")
    assert "train.py:1 forward" in text(page, "diff-sites")
    assert page.run("return document.getElementById('diff').hidden") is False


def test_a_file_of_one_moment_says_that_it_has_no_timeline(opened, pages):
    path = pages / "moment.html"
    memlake.report(state_job().save(pages / "moment.pickle")).save(path)
    page = opened(path)
    assert "shows one moment and has no history" in text(page, "timeline-text")
    assert "peakunknown: the file has no history" in text(page, "facts")
    shown = (
        "return [...document.querySelectorAll('.chart')].filter((one) => one.checkVisibility()).map((one) => one.id)"
    )
    assert page.run(shown) == []
    assert page.run("return document.getElementById('timeline-tools').checkVisibility()") is False


def test_a_single_row_is_drawn_over_its_whole_width(opened, pages):
    job = TorchJob()
    job.alloc(20)
    path = pages / "single.html"
    memlake.report(job.save(pages / "single.pickle")).save(path)
    page = opened(path)
    assert "1 row, 1 allocation, 1 stream" in text(page, "facts")
    assert "Rows 0 to 0 of 1" in text(page, "timeline-text")
    middle = (
        "const c = document.querySelector('#timeline-chart canvas');"
        "return [...c.getContext('2d').getImageData(c.width / 2, c.height / 2, 1, 1).data]"
    )
    assert page.run(middle)[3] == 255


def test_names_of_any_length_take_two_lines_of_a_table(opened, lengths_page):
    page = opened(lengths_page)
    heights = page.run("return [...document.querySelectorAll('#sites tbody tr')].map((one) => one.clientHeight)")
    assert max(heights) <= 2.2 * min(heights)
    titles = page.run("return [...document.querySelectorAll('#sites .clamped')].map((one) => one.title)")
    assert max(map(len, titles)) > 500


def test_both_themes_have_readable_text(opened, dead_page):
    page = opened(dead_page)
    colours = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    seen = []
    for _ in range(3):
        page.run("document.getElementById('theme').click()")
        ink, paper = (_luminance(colour) for colour in page.run(colours))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7
        seen.append(paper)
    assert min(seen) < 0.1 < 0.8 < max(seen)


@pytest.mark.parametrize("name", ["dead_page", "ranks_page", "lengths_page", "diff_page"])
def test_a_phone_needs_no_sideways_scrolling(request, opened, name):
    path = request.getfixturevalue(name)
    page = opened(path)
    page.command("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=2, mobile=True)
    try:
        opened(path)
        assert page.run("return document.documentElement.scrollWidth") <= 390
    finally:
        page.command("Emulation.clearDeviceMetricsOverride")


def test_paper_has_the_moment_of_the_map_and_the_colours_of_the_legend_but_no_buttons(opened, dead_page):
    page = opened(dead_page)
    page.command("Emulation.setEmulatedMedia", media="print")
    try:
        visible = "return document.getElementById(arguments[0]).checkVisibility()"
        assert page.run(visible, "moment-text")
        assert not page.run(visible, "moment")
        assert not page.run(visible, "theme")
        dot = "return getComputedStyle(document.querySelector('#map-legend .dot')).printColorAdjust"
        assert page.run(dot) == "exact"
    finally:
        page.command("Emulation.setEmulatedMedia", media="")


def test_every_canvas_and_control_has_a_name_for_a_screen_reader(opened, dead_page):
    page = opened(dead_page)
    nameless = (
        "return [...document.querySelectorAll('canvas, select, input, button')].filter((one) =>"
        " !one.closest('[hidden]') && !one.getAttribute('aria-label') && !one.closest('label')"
        " && !one.textContent.trim()"
        " && one.getAttribute('aria-hidden') !== 'true' && !one.closest('.chart')).map((one) => one.outerHTML)"
    )
    assert page.run(nameless) == []


def _luminance(colour):
    numbers = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_library_is_the_file_of_its_package():
    assets = Path(memlake.__file__).parent / "html_report" / "assets"
    assert (assets / "uPlot.iife.min.js").read_text().startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
