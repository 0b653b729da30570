"""Gets PyTorch's memory viewer for the tests in the browser, into a folder: `python tools/torch_viewer.py FOLDER`.

The viewer is a script in a page. The packages of PyTorch 2.0 have it inside, in torch/cuda/_memory_viz.py. The packages
of 2.1 and later have only a page that loads the script from a network, so 2.0.1 is the newest whose viewer can be
installed by name. The script draws with d3, which comes from npm.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from npm_package import files_of

VIEWER = "torch/cuda/_memory_viz.py"
VIEWER_SHA256 = "b81e3e56f6c4d2e877ce5969ef04cb85bde24541aff1b8e07fdc862ecce94940"
# The smallest of the packages of 2.0.1 (56 MB). Its file is the same in all of them.
PACKAGE = ["torch==2.0.1", "--platform", "macosx_11_0_arm64", "--python-version", "3.11", "--only-binary", ":all:"]
D3 = "d3@7.9.0"
# npm view d3@7.9.0 dist.integrity
D3_INTEGRITY = "e1U46jVP+w7Iut8Jt8ri1YsPOvFpg46k+K8TpCb0P+zjCkjkPnV7WzfDJzMHy1LnA+wj5pLT1wjO901gLXeEhA=="


def viewer() -> bytes:
    """Returns the module with the viewer.

    Raises:
        SystemExit: if pip does not give the package, or the module is another one.
    """
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        got = subprocess.run(
            [*pip, "download", "--no-deps", "--dest", folder, *PACKAGE], capture_output=True, text=True, check=False
        )
        wheels = list(Path(folder).glob("*.whl"))
        if got.returncode != 0 or len(wheels) != 1:
            raise SystemExit(f"pip does not give {PACKAGE[0]}: {got.stderr.strip()[-300:]}")
        with zipfile.ZipFile(wheels[0]) as archive:
            content = archive.read(VIEWER)
    if hashlib.sha256(content).hexdigest() != VIEWER_SHA256:
        raise SystemExit(f"{VIEWER} of {PACKAGE[0]} is not the known file")
    return content


def main() -> None:
    """Writes the viewer and d3 into the folder."""
    folder = Path(sys.argv[1])
    (d3,) = files_of(D3, D3_INTEGRITY, ["package/dist/d3.min.js"])
    found = {Path(VIEWER).name: viewer(), "d3.min.js": d3}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
