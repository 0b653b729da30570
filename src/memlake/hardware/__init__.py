"""The machine: whether memlake works on it, what its GPUs and their driver can do and what their calls cost.

`examine` makes the findings of `memlake doctor`. A hardware report has the features and costs of one GPU, and how they
differ from what memlake assumes. `make test-gpu` writes one; docs/guides/on_real_hardware.md says what to do with it.
"""

from memlake.hardware.differences import Difference, Differences, compare_report
from memlake.hardware.examination import examine
from memlake.hardware.health import Finding, Health
from memlake.hardware.measuring import measure
from memlake.hardware.report import HardwareReport

__all__ = [
    "Difference",
    "Differences",
    "Finding",
    "HardwareReport",
    "Health",
    "compare_report",
    "examine",
    "measure",
]
