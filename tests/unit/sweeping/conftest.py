"""Fixtures of the tests of sweeps."""

import pytest

from helpers.sweeps import write_ranks


@pytest.fixture
def four(tmp_path):
    """A folder with the traces of four ranks."""
    return write_ranks(tmp_path / "run", 4)
