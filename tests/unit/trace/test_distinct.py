import subprocess
import sys

import numpy as np
import pytest

from helpers.torch_snapshots import scattered_job
from memlake.trace.distinct import distinct


@pytest.mark.parametrize("values", [[], [5], [3, 3], [9, 1, 9, 2**64 - 1, 1, 0]])
def test_the_different_values_come_in_order(values):
    array = np.array(values, np.uint64)
    assert distinct(array).tolist() == np.unique(array).tolist()
    assert distinct(array).dtype == np.uint64


def test_loading_a_snapshot_imports_no_more_of_numpy(tmp_path):
    path = scattered_job().save(tmp_path / "snapshot.pickle")
    code = (
        "import sys, memlake.trace.loading\n"
        "before = set(sys.modules)\n"
        f"memlake.Trace.load({str(path)!r})\n"
        "assert set(sys.modules) == before, set(sys.modules) - before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
