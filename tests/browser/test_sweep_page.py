"""The page of a sweep in a real browser: mouse and keyboard read the heat map, and every text is taken for text."""

from dataclasses import replace

import pytest

import memlake
from helpers.sweeps import random_trace, write_ranks
from memlake.html_report import report_of_sweep
from memlake.jobs.labels import RankFile
from memlake.sweeping import load_sweep

HOSTILE = "<img src=x onerror=window.owned=1>"
RIGHT, DOWN, ENTER = "\ue014", "\ue015", "\ue007"
SIZES, POLICIES = ["216MiB", "256MiB", "1GiB"], ["lake", "caching", "expandable"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return tmp_path_factory.mktemp("sweep_pages")


@pytest.fixture(scope="module")
def found(pages):
    return memlake.sweep(write_ranks(pages / "run", 12, 300), SIZES, POLICIES, results=pages / "results.jsonl")


@pytest.fixture(scope="module")
def page(pages, found):
    path = pages / "sweep.html"
    report_of_sweep(load_sweep(pages / "results.jsonl"), "results.jsonl").save(path)
    return path


def text(browser, element):
    return browser.run("return document.getElementById(arguments[0]).textContent", element)


def rows_of(browser, table):
    script = (
        "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return browser.run(script, table)


def change(browser, element, value):
    browser.run(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event(e.tagName === 'INPUT' ? 'input' : 'change'))",
        element,
        value,
    )


def colour_at(browser, line, column):
    """The colour of a corner of a cell of the heat map."""
    script = (
        "const c = document.getElementById('heat-canvas'), s = c.width / c.clientWidth;"
        "const [left, top, width, height] = c.dataset.grid.split(' ').map(Number);"
        "const at = [left + (arguments[1] + 0.95) * width, top + (arguments[0] + 0.2) * height];"
        # Reading the canvas itself often would make Chromium warn that it is drawn on a GPU.
        "const copy = document.createElement('canvas'), ctx = copy.getContext('2d', {willReadFrequently: true});"
        "copy.width = copy.height = 1; ctx.drawImage(c, at[0] * s, at[1] * s, 1, 1, 0, 0, 1, 1);"
        "return [...ctx.getImageData(0, 0, 1, 1).data].join(',')"
    )
    return browser.run(script, line, column)


def test_the_answer_the_worst_file_and_every_figure_are_there(opened, page, found):
    browser = opened(page)
    assert text(browser, "sentence") == found.sentence
    assert text(browser, "worst-title") == f"The worst: {found.worst.file.title}"
    assert found.best.setting.title in text(browser, "best-text")
    table = rows_of(browser, "settings-table")
    assert len(table) == len(found.settings) == 9
    assert sum("serves all" in row[0] for row in table) == 1
    change(browser, "order", "given")
    cells = rows_of(browser, "cells")
    assert [row[0] for row in cells] == [file.file.title for file in found]
    shown = [["OOM" if cell == "OOM" else "fits" for cell in row[2:]] for row in cells]
    assert shown == [["OOM" if row["outcome"] == "oom" else "fits" for row in file.rows[:3]] for file in found]


def test_the_order_is_the_worst_first_and_can_be_changed(opened, page, found):
    browser = opened(page)
    assert rows_of(browser, "cells")[0][0] == found.worst.file.title
    change(browser, "order", "given")
    assert rows_of(browser, "cells")[0][0] == "rank 0"


def test_a_cell_has_the_colour_of_its_outcome(opened, page, found):
    browser = opened(page)
    change(browser, "order", "given")
    change(browser, "heat-colour", "outcome")
    outcomes = {
        (line, column): row["outcome"] for line, file in enumerate(found) for column, row in enumerate(file.rows)
    }
    assert set(outcomes.values()) == {"ok", "oom"}
    colours = {place: colour_at(browser, *place) for place in outcomes}
    assert len(set(colours.values())) == 2
    for outcome in ("ok", "oom"):
        assert len({colours[place] for place, has in outcomes.items() if has == outcome}) == 1
    change(browser, "heat-colour", "held")
    assert len({colour_at(browser, *place) for place, has in outcomes.items() if has == "ok"}) > 1


def test_the_keyboard_reads_the_cells_and_shows_a_file(opened, page, found):
    browser = opened(page)
    change(browser, "order", "given")
    browser.run("document.getElementById('heat-canvas').focus()")
    for _ in found:
        browser.press("\ue013")
    browser.press(RIGHT)
    browser.press(DOWN)
    said = text(browser, "heat-text")
    assert said.startswith("rank 1 under caching on 216 MiB: ")
    browser.press(ENTER)
    browser.wait_for("document.getElementById('detail-title').textContent === 'rank 1'")
    detail = rows_of(browser, "detail-table")
    assert [row[0].strip() for row in detail] == [one.options.label for one in found.settings]


def test_a_click_on_a_cell_shows_its_file(opened, page):
    browser = opened(page)
    change(browser, "order", "given")
    browser.run("document.getElementById('heat').scrollIntoView({behavior: 'instant'})")
    script = (
        "const c = document.getElementById('heat-canvas'), b = c.getBoundingClientRect();"
        "const [left, top, width, height] = c.dataset.grid.split(' ').map(Number);"
        "return [b.left + left + 4.5 * width, b.top + top + 5.5 * height].map(Math.round)"
    )
    place = tuple(browser.run(script))
    browser.drag(place, place)
    browser.wait_for("document.getElementById('detail-title').textContent === 'rank 5'")
    assert text(browser, "heat-text").startswith("rank 5 under caching on 256 MiB")


def test_search_filters_the_files(opened, page):
    browser = opened(page)
    change(browser, "search", "rank11")
    assert [row[0] for row in rows_of(browser, "cells")] == ["rank 11"]
    multiples = "return document.querySelectorAll('.multiple').length"
    assert browser.run(multiples) == 1
    change(browser, "search", "")
    assert browser.run(multiples) == 12


def test_dark_colours_draw_the_map_again(opened, page):
    browser = opened(page)
    light = colour_at(browser, 0, 0)
    for _ in range(2):
        browser.run("document.getElementById('theme').click()")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    assert colour_at(browser, 0, 0) != light


def test_names_of_files_are_text_and_never_markup(opened, pages):
    folder = pages / "hostile"
    folder.mkdir(exist_ok=True)
    for name in ("a", HOSTILE):
        random_trace(1, 60).save(folder / f"{name}.npz")
    (folder / f"{HOSTILE}2.npz").write_bytes(b"PK\3\4")
    path = pages / "hostile.html"
    report_of_sweep(memlake.sweep(folder, "1GiB", "lake"), HOSTILE).save(path)
    browser = opened(path)
    assert text(browser, "title") == HOSTILE
    assert HOSTILE in text(browser, "cells")
    assert HOSTILE in text(browser, "unreadable")
    assert browser.run("return [window.owned, document.querySelectorAll('img').length]") == [None, 0]


def test_a_thousand_files_open_and_are_filtered(opened, pages, found):
    files = tuple(
        replace(found.files[number % 12], file=RankFile(f"run/rank{number}.npz", str(number), number))
        for number in range(1000)
    )
    path = pages / "thousand.html"
    report_of_sweep(replace(found, files=files)).save(path)
    assert path.stat().st_size < 15 * 2**20
    browser = opened(path)
    assert browser.run("return document.querySelectorAll('.multiple').length") == 48
    browser.run("document.getElementById('more-cells').click()")
    assert len(rows_of(browser, "cells")) == 1000
    change(browser, "search", "rank999")
    assert len(rows_of(browser, "cells")) == 1
