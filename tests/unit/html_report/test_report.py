"""Reports without a browser: their figures, their size, and that nothing of a file becomes markup."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

import memlake
from helpers.torch_snapshots import Refused, TorchJob, roomy_job, scattered_job
from memlake import ConfigError, Trace
from memlake.html_report import ReportWishes
from memlake.html_report.chosen_moments import chosen_moments
from memlake.html_report.flame import flame_of
from memlake.html_report.reporting import report_of_trace
from memlake.html_report.series import live_samples, recorded_samples, sample_rows, stream_series
from memlake.integrations.perfetto import save_perfetto
from memlake.policies import resolve_policy
from memlake.trace import Op
from memlake.trace.live_set import live_after


@pytest.fixture(scope="module")
def dead(tmp_path_factory):
    return Trace.load(scattered_job().save(tmp_path_factory.mktemp("dead") / "dead.pickle"))


@pytest.fixture(scope="module")
def page(dead):
    return memlake.report(dead).to_html()


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def blob_of(html, reference):
    text = re.search(rf'id="blob-{reference["blob"]}">(.*?)</script>', html)[1]
    packed, columns, offset = zlib.decompress(base64.b64decode(text)), {}, 0
    types = {"u8": "u1", "u16": "<u2", "u32": "<u4", "f32": "<f4", "f64": "<f8"}
    for name, kind, length in reference["columns"]:
        columns[name] = np.frombuffer(packed, types[kind], length, offset)
        offset += columns[name].nbytes
    assert offset == len(packed)
    return columns


def test_a_report_has_the_verdict_and_the_advice_of_the_commands(dead, page):
    file = data_of(page)["files"][0]
    assert file["verdict"] == memlake.overview(dead).shortage.sentence
    advice = memlake.advise(dead)
    assert file["advice"]["recommendation"]["line"] == advice.recommendation.line
    assert file["compared"] == memlake.compare(dead).sentence
    assert [one["label"] for one in file["policies"]] == [result.label for result in memlake.compare(dead)]


@pytest.mark.parametrize("before", [0, 5])
def test_a_job_that_asked_for_more_than_its_device_has_is_explained(tmp_path, before):
    job = TorchJob(1024)
    for _ in range(before):
        job.alloc(40)
    with pytest.raises(Refused):
        job.alloc(2000)
    path = job.save(tmp_path / "job.pickle")
    (file,) = memlake.report(path).files
    assert "asked for 1.95 GiB" in file.verdict
    assert all(one["outcome"] == "oom" for one in file.figures["policies"])
    save_perfetto(Trace.load(path), tmp_path / "job.perfetto.json")
    with pytest.raises(ConfigError, match=r"asks for 1\.95 GiB at once"):
        memlake.report(path, "1GiB")
    with pytest.raises(ConfigError, match=r"asks for 1\.95 GiB at once"):
        save_perfetto(Trace.load(path), tmp_path / "small.perfetto.json", "1GiB")


def test_the_series_of_a_page_have_the_peaks(dead, page):
    file = data_of(page)["files"][0]
    series = blob_of(page, file["series"])
    assert series["live"].max() * file["unit"] == memlake.overview(dead).peak.nbytes
    assert series["recorded"].max() * file["unit"] == dead.recorded.held_peak
    lake = next(one for one in file["policies"] if one["policy"] == "lake")
    assert blob_of(page, lake["timeline"])["held"].max() * file["unit"] == lake["peak_held"]
    assert blob_of(page, lake["timeline"])["driver_ms"][-1] == pytest.approx(lake["modelled_driver_ms"])


def test_every_row_of_a_short_trace_is_a_moment(dead, page):
    file = data_of(page)["files"][0]
    assert blob_of(page, file["moments"])["row"].tolist() == list(range(len(dead)))


def test_a_page_needs_no_network_and_names_its_library(page):
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert "default-src 'none'" in page
    assert "MIT License" in page
    assert "Leon Sorokin" in page


def test_a_page_is_readable_without_scripts(page):
    plain = re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)[1]
    assert "Verdict: enough but scattered" in plain
    assert "expandable_segments:True" in plain


@pytest.mark.parametrize("name", ["</script><b>", "<!--<script>", "\u2028\u2029", "&lt;", "{{data}}", "\0\x1b[31m"])
def test_no_text_of_a_file_is_markup(name, tmp_path):
    job = TorchJob()
    job.frames_now = [{"filename": f"/home/{name}.py", "line": 3, "name": name}]
    job.alloc(20)
    html = memlake.report(job.save(tmp_path / "a.pickle")).to_html()
    whole = re.search(r'<script type="application/json" id="data">(.*?)\n', html, re.DOTALL)[1]
    assert not set("<>&\u2028\u2029") & set(whole.removesuffix("</script>"))
    texts = data_of(html)["files"][0]["peak"]["flame"]["python"]["name"]
    assert name in texts


def test_moments_are_dense_where_memory_ran_out(offload):
    rows = chosen_moments(offload, (), [111_153], 5).tolist()
    assert {111_153, 111_152, 111_150, 111_100, 111_009} & set(rows) >= {111_153, 111_152, 111_150}
    assert rows == sorted(set(rows))
    assert len(rows) < 300


def test_a_window_of_steps_is_shown_closely(offload):
    first = last = offload.steps[2]
    wishes = ReportWishes("80GiB", policies=(resolve_policy("lake"),), steps=(first.number, last.number), samples=1000)
    made = report_of_trace(offload, "offload", wishes)
    html = made.to_html()
    file = data_of(html)["files"][0]
    assert file["window"] == [first.start, last.stop - 1]
    inside = (first.start, last.stop)
    rows = blob_of(html, file["moments"])["row"]
    assert np.count_nonzero((inside[0] <= rows) & (rows < inside[1])) > 0.7 * len(rows)
    samples = blob_of(html, file["series"])["row"]
    assert np.count_nonzero((inside[0] <= samples) & (samples < inside[1])) >= 900


def test_stacks_can_be_left_out(dead):
    html = report_of_trace(dead, "dead", ReportWishes(has_stacks=False)).to_html()
    assert "/home/someone" in memlake.report(dead).to_html()
    assert "/home/someone" not in html


def test_series_match_the_trace(moe):
    rows = sample_rows(moe, 500)
    assert live_samples(moe, rows).max() == moe.peak_live
    assert recorded_samples(moe, rows) is None
    streams = stream_series(moe, rows)
    assert sum(one.num_allocations for one in streams) == moe.num_allocations
    everything = sample_rows(moe, len(moe))
    live = live_samples(moe, everything)
    assert np.array_equal(sum(one.live for one in stream_series(moe, everything)), live)


def test_many_streams_become_the_largest_and_the_others(make_trace):
    trace = make_trace([(Op.ALLOCATE, number, number + 1, number) for number in range(20)])
    found = stream_series(trace, sample_rows(trace, 20))
    assert [one.stream for one in found] == [19, 18, 17, 16, 15, 14, 13, 12, None]
    assert found[-1].num_allocations == 12
    assert found[-1].peak == sum(range(1, 13)) * 2**20


def test_a_flame_graph_adds_up_and_joins_what_is_too_small(tmp_path):
    sizes = [1000] + [0.2] * 30
    job = TorchJob(4096)
    for number, mib in enumerate(sizes):
        job.frames_now = [
            {"filename": "/a/model.py", "line": number, "name": f"leaf{number}"},
            {"filename": "/a/train.py", "line": 1, "name": "main"},
            {"filename": "??", "line": 0, "name": "c_main"},
        ]
        job.alloc(mib)
    trace = Trace.load(job.save(tmp_path / "a.pickle"))
    live = live_after(trace, len(trace) - 1)
    tree = flame_of(trace, live, only_python=True)
    assert tree["name"][:3] == ["all", "main", "leaf0"]
    assert tree["name"][3] == "(30 smaller)"
    assert tree["bytes"][0] == live.nbytes
    for node in range(len(tree["name"])):
        below = [size for size, parent in zip(tree["bytes"], tree["parent"], strict=True) if parent == node]
        assert not below or sum(below) == tree["bytes"][node]
    assert "c_main" in flame_of(trace, live, only_python=False)["name"]


def test_a_million_different_stacks_do_not_make_a_page_large(tmp_path):
    job = TorchJob(100_000)
    for number in range(3000):
        job.frames_now = [{"filename": f"/a/{depth}.py", "line": number, "name": f"f{number}"} for depth in range(20)]
        job.alloc(10)
    trace = Trace.load(job.save(tmp_path / "a.pickle"))
    tree = flame_of(trace, live_after(trace, len(trace) - 1), only_python=True)
    assert len(tree["name"]) < 25_000
    assert tree["bytes"][0] == 3000 * 10 * 2**20


def test_ranks_are_in_one_report_the_worst_first(tmp_path):
    roomy_job(300).save(tmp_path / "rank0.pickle")
    scattered_job().save(tmp_path / "rank1.pickle")
    (tmp_path / "rank2.pickle").write_bytes(b"\x80\x04]")
    made = memlake.report(tmp_path)
    assert [one.name for one in made.files] == ["rank 1", "rank 0"]
    assert len(made.unreadable) == 1
    assert "rank2.pickle" in made.unreadable[0]


def test_a_trace_without_allocations_has_no_report():
    with pytest.raises(ConfigError, match=r"has no allocations.*hint: "):
        memlake.report(Trace([], [], []))


def test_a_device_smaller_than_a_request_is_refused(dead):
    with pytest.raises(
        ConfigError, match=r"asks for 960 MiB at once, which a device of 512 MiB can never have; hint: "
    ):
        memlake.report(dead, "512MiB")


def test_json_has_what_the_page_shows_without_its_columns(dead):
    made = memlake.report(dead).to_json()
    text = json.dumps(made)
    assert '"blob"' not in text
    assert made["files"][0]["verdict"].startswith("PyTorch ran out of memory at row")
