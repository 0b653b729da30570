"""A lock between all processes of the user on this machine: the workers of a test run, and other test runs."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def machine_lock(name: str) -> Iterator[None]:
    """Waits until no other process is in a block with the same name. The end of a process frees its lock."""
    path = Path(tempfile.gettempdir()) / f"memlake-tests-{os.geteuid()}-{name}.lock"
    # The file stays: a process that waits for it must wait for the same file as one that comes later.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
