"""Snapshots that memlake writes, in PyTorch's own programs: its viewer in a browser, and its command in Python.

The viewer (torch/utils/viz/MemoryViz.js of PyTorch's repository) is not in PyTorch's packages: its page loads it from a
network. MEMLAKE_MEMORYVIZ names a folder with its scripts and with d3.min.js of the npm package d3.
"""

import base64
import functools
import http.server
import json
import os
import pickle
import re
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from helpers.torch_snapshots import scattered_job
from memlake import Trace
from memlake.trace import load_example

VIEWS = ("Active Memory Timeline", "Allocator State History")


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    """Two snapshots: of a trace that has no addresses, and of a snapshot."""
    folder = tmp_path_factory.mktemp("snapshots")
    load_example("train_moe")[:4000].save(folder / "example.pickle")
    Trace.load(scattered_job().save(folder / "own.pickle")).save(folder / "again.pickle")
    return folder


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    """A folder with the viewer's scripts, served over HTTP: a browser runs no modules of a disk."""
    folder = os.environ.get("MEMLAKE_MEMORYVIZ")
    if not folder:
        pytest.skip("MEMLAKE_MEMORYVIZ does not name a folder with PyTorch's viewer, which no package has")
    site = tmp_path_factory.mktemp("viewer")
    imports = {}
    for script in Path(folder).glob("*.js"):
        text = script.read_text()
        (site / script.name).write_text(text)
        for names, url in re.findall(r'import\s+(\{[^}]*\}|\* as \w+)\s+from\s+["\'](https://[^"\']+)["\']', text):
            imports[url] = "/d3.mjs"
            assert names
    names = (
        "axisLeft brushX scaleLinear zoom zoomIdentity select selectAll scaleOrdinal schemeTableau10 format axisBottom "
    )
    names += "schemePaired schemeCategory10 max min"
    exports = "\n".join(f"export const {name} = d3.{name};" for name in names.split())
    (site / "d3.mjs").write_text(f"const d3 = window.d3;\n{exports}\n")
    (site / "imports.json").write_text(json.dumps({"imports": imports}))
    handler = functools.partial(_Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield site, server.server_address[1]
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["example.pickle", "again.pickle"])
def test_the_viewer_draws_a_snapshot_that_memlake_wrote(chromium, viewer, snapshots, name, view):
    site, port = viewer
    imports = (site / "imports.json").read_text()
    files = json.dumps(
        [{"name": name, "base64": base64.b64encode((snapshots / name).read_bytes() + b"\0" * 3).decode()}]
    )
    page = (
        f'<!doctype html><html><head><link rel="icon" href="data:,"><script type="importmap">{imports}</script>'
        '<script src="/d3.min.js"></script></head><body><script type="module">'
        f'import {{add_local_files}} from "/MemoryViz.js"; add_local_files({files}, "{view}")</script></body></html>'
    )
    (site / "page.html").write_text(page)
    chromium.console()
    chromium.open_address(f"http://127.0.0.1:{port}/page.html")
    chromium.wait_for("document.querySelectorAll('svg polygon, svg rect').length > 20")
    assert chromium.console() == []


@pytest.mark.parametrize("name", ["example.pickle", "again.pickle"])
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
