"""Snapshots that memlake writes, in PyTorch's own programs: its viewer in a browser, and its command in Python.

The viewer is a script. The package of PyTorch 2.0 has it inside; `make torch-viewer` gets it, and d3 from npm. Later
packages do not have it: their page loads torch/utils/viz/MemoryViz.js of PyTorch's repository from a network. If
MEMLAKE_MEMORYVIZ names a folder with its scripts and with d3.min.js of npm's package d3, that viewer is tried, too.
"""

import base64
import functools
import http.server
import importlib.util
import json
import os
import pickle
import re
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from helpers.torch_snapshots import scattered_job
from memlake import Trace
from memlake.trace import Op, load_example

NAMES = ("example.pickle", "again.pickle")
PACKAGED = Path(__file__).parents[2] / "build/torch_viewer"
D3_NAMES = (
    "axisLeft axisBottom brushX scaleLinear scaleOrdinal zoom zoomIdentity select selectAll format max min "
    "schemeTableau10 schemePaired schemeCategory10"
)
VIEWS = ("Active Memory Timeline", "Allocator State History")


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    """Two snapshots: of a trace that has no addresses, and of a snapshot."""
    folder = tmp_path_factory.mktemp("snapshots")
    load_example("train_moe")[:4000].save(folder / "example.pickle")
    Trace.load(scattered_job().save(folder / "own.pickle")).save(folder / "again.pickle")
    return folder


@contextmanager
def served(site):
    """Serves a folder over HTTP, because a browser runs no modules of a disk. Yields its address."""
    handler = functools.partial(_Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def with_d3(site, script, d3):
    """Returns the head of a page in which the addresses that a script imports from a network are those of d3 here."""
    (site / "d3.min.js").write_bytes(d3.read_bytes())
    imported = re.findall(r'import\s+(?:\{[^}]*\}|\* as \w+)\s+from\s+["\'](https://[^"\']+)["\']', script)
    assert imported
    exports = "\n".join(f"export const {name} = d3.{name};" for name in D3_NAMES.split())
    (site / "d3.mjs").write_text(f"const d3 = window.d3;\n{exports}\n")
    imports = json.dumps({"imports": dict.fromkeys(imported, "/d3.mjs")})
    return (
        f'<link rel="icon" href="data:,"><script type="importmap">{imports}</script><script src="/d3.min.js"></script>'
    )


@pytest.fixture(scope="module")
def packaged_viewer():
    """The module of PyTorch 2.0 with the viewer inside. It imports nothing of PyTorch."""
    path = PACKAGED / "_memory_viz.py"
    if not path.exists():
        pytest.skip("`make torch-viewer` did not get PyTorch 2.0's viewer from pip and d3 from npm")
    spec = importlib.util.spec_from_file_location("packaged_memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def newest_viewer(tmp_path_factory):
    """A folder with the scripts of PyTorch's repository, its address, and the head of a page that loads them."""
    folder = os.environ.get("MEMLAKE_MEMORYVIZ")
    if not folder:
        pytest.skip(
            "MemoryViz.js is in PyTorch's repository and not in its packages, and MEMLAKE_MEMORYVIZ does not name a "
            "folder with it; the viewer of PyTorch 2.0's package is tested"
        )
    site = tmp_path_factory.mktemp("viewer")
    scripts = {path.name: path.read_text() for path in Path(folder).glob("*.js")}
    for name, text in scripts.items():
        (site / name).write_text(text)
    head = with_d3(site, scripts["MemoryViz.js"], Path(folder) / "d3.min.js")
    with served(site) as address:
        yield site, address, head


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, *_):
        pass


def drawn_by(trace):
    """Returns the number of blocks of a trace, and the most that were live at once, in requested bytes.

    PyTorch's viewer draws neither the rounding of requests nor a request that PyTorch refused.
    """
    refused = {shortage.row for shortage in trace.shortages}
    live, most, sizes = 0, 0, {}
    for place, row in enumerate(trace):
        if row.op is Op.ALLOCATE and place not in refused:
            sizes[row.id] = row.bytes
            live += row.bytes
        elif row.op is Op.FREE:
            live -= sizes.get(row.id, 0)
        most = max(most, live)
    return len(sizes), most


@pytest.mark.parametrize("name", NAMES)
def test_the_viewer_of_pytorchs_package_draws_every_block_up_to_the_live_peak(
    chromium, packaged_viewer, snapshots, tmp_path, name
):
    page = packaged_viewer.trace_plot(pickle.loads((snapshots / name).read_bytes()))
    head = with_d3(tmp_path, page, PACKAGED / "d3.min.js")
    (tmp_path / "page.html").write_text(page.replace("<head>", f"<head>{head}"))
    trace = Trace.load(snapshots / name)
    chromium.console()
    with served(tmp_path) as address:
        chromium.open_address(f"{address}/page.html")
        # The last thing that the script draws is the brush of the small chart.
        chromium.wait_for("document.querySelector('.selection')")
        drawn = chromium.run("return Array.from(document.querySelectorAll('polygon'), (shape) => shape.__data__)")
    assert chromium.console() == []
    blocks = [block for block in drawn if block]  # the shape of the small chart has no data
    count, peak = drawn_by(trace)
    assert len(blocks) == count
    assert max(offset + block["size"] for block in blocks for offset in block["offsets"]) == peak


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", NAMES)
def test_the_viewer_of_pytorchs_repository_draws_a_snapshot_that_memlake_wrote(
    chromium, newest_viewer, snapshots, name, view
):
    site, address, head = newest_viewer
    files = json.dumps(
        [{"name": name, "base64": base64.b64encode((snapshots / name).read_bytes() + b"\0" * 3).decode()}]
    )
    page = (
        f'<!doctype html><html><head>{head}</head><body><script type="module">'
        f'import {{add_local_files}} from "/MemoryViz.js"; add_local_files({files}, "{view}")</script></body></html>'
    )
    (site / "page.html").write_text(page)
    chromium.console()
    chromium.open_address(f"{address}/page.html")
    chromium.wait_for("document.querySelectorAll('svg polygon, svg rect').length > 20")
    assert chromium.console() == []


@pytest.mark.parametrize("name", NAMES)
def test_pytorchs_own_command_reads_a_snapshot_that_memlake_wrote(snapshots, name):
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="torch is not installed")
    snapshot = pickle.loads((snapshots / name).read_bytes())
    segments = snapshot["segments"]
    assert [viz.calc_active(segment) for segment in segments] == [segment["active_size"] for segment in segments]
    assert f"segments: {len(segments)}" in viz.segsum(snapshot)
    lines = viz.trace(snapshot).splitlines()
    assert sum(" = " in line and "[" in line for line in lines) == sum(
        event["action"] == "alloc" for event in snapshot["device_traces"][0]
    )
    # The flame graph itself is drawn by a program that PyTorch loads from a network.
    assert viz.segments(snapshot, format_flamegraph=str).count("\n") >= len(segments)
    assert "active_allocated" in viz.memory(snapshot, format_flamegraph=str)
