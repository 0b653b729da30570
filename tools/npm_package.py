"""Gets a package from npm by its name, and refuses it if it is not the one whose integrity is known."""

import base64
import hashlib
import subprocess
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path


def files_of(package: str, integrity: str, inside: list[str]) -> list[bytes]:
    """Returns the contents of some files of a package.

    Args:
        package: its name and its version, as `uplot@1.6.32`.
        integrity: what `npm view PACKAGE dist.integrity` prints after "sha512-".
        inside: the places of the files in the package.

    Raises:
        SystemExit: if npm does not give the package, or gives another one.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", package]
        try:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise SystemExit(f"npm is not installed, so {package} cannot be had") from None
        archives = list(Path(folder).glob("*.tgz"))
        if ran.returncode != 0 or len(archives) != 1:
            raise SystemExit(f"npm does not give {package}: {ran.stderr.strip()[-300:]}")
        content = archives[0].read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != integrity:
        raise SystemExit(f"what npm gives for {package} does not have the integrity that npm stated")
    found = []
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        for name in inside:
            member = archive.extractfile(name)
            assert member is not None
            found.append(member.read())
    return found
