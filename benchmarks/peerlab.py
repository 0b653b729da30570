"""A build of the whole CUDA PyTorch that runs without a GPU, and programs inside it.

The lab is not part of memlake. Its folder has `fakerun.sh`, which puts a driver without a device under a program, and
`vt`, a virtual environment with the CUDA build of PyTorch. MEMLAKE_PEERLAB names the folder.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import memlake
from benchmarks.figures import SkippedError

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "tests" / "peers"
"""The programs that run inside the lab."""
SITE = ROOT / "build" / "peers"
"""A folder that has nothing but memlake, so that the lab's own packages are not hidden."""
MODES = ("native", "expandable", "memlake")
HOW_TO_BUILD = (
    "build one with `./build.sh full` in the folder of the lab (it downloads 5 GB), then name it "
    "(MEMLAKE_PEERLAB=FOLDER, or make peers PEERLAB=FOLDER)"
)


@dataclass(frozen=True)
class Peerlab:
    """A lab that can run programs under PyTorch's allocators and under memlake."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter that has PyTorch."""
        return self.folder / "vt" / "bin" / "python"

    def environment(self, mode: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables of a program that runs in a mode."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "FAKE_CUDA_"))}
        kept |= {
            "PEERLAB": str(self.folder),
            "PEERS_MODE": mode,
            "PYTHONPATH": f"{PEERS}{os.pathsep}{SITE}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        if mode == "expandable":
            kept["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        return {**kept, **(more or {})}

    def command(self, *arguments: str) -> list[str]:
        """A command line of the lab's Python."""
        return [str(self.folder / "fakerun.sh"), str(self.python), *arguments]

    def run(
        self, mode: str, arguments: Sequence[str], more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of the lab's Python to its end."""
        return subprocess.run(
            self.command(*arguments), env=self.environment(mode, more), capture_output=True, text=True, check=False
        )


def find_peerlab() -> Peerlab:
    """Returns the lab that MEMLAKE_PEERLAB names, with memlake inside.

    Raises:
        SkippedError: if there is none, or if memlake cannot be imported there.
    """
    named = os.environ.get("MEMLAKE_PEERLAB")
    if not named:
        raise SkippedError(f"MEMLAKE_PEERLAB is not set: it names a folder with a CUDA PyTorch; {HOW_TO_BUILD}")
    lab = Peerlab(Path(named).resolve())
    for part in (lab.folder / "fakerun.sh", lab.folder / "build" / "libcuda.so.1", lab.python):
        if not part.exists():
            raise SkippedError(
                f"{named} has no {part.relative_to(lab.folder)}, so it is not a built lab; {HOW_TO_BUILD}"
            )
    _link_memlake()
    said = lab.run("memlake", ["-c", "import torch, memlake._native, memlake.torch"])
    if said.returncode != 0:
        last = said.stderr.strip().splitlines()[-1:] or ["no message"]
        raise SkippedError(
            f"the lab's Python cannot import PyTorch and this memlake ({last[0]}); both need the same Python version"
        )
    return lab


def _link_memlake() -> None:
    SITE.mkdir(parents=True, exist_ok=True)
    link, target = SITE / "memlake", Path(memlake.__file__).resolve().parent
    if link.is_symlink() and link.resolve() == target:
        return
    if link.is_symlink():
        link.unlink()
    link.symlink_to(target)
