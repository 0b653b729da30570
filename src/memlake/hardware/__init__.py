"""Hardware reports: what a GPU and its driver can do and what their calls cost, and how that differs from what memlake
assumes. `make test-gpu` writes one; docs/guides/on_real_hardware.md says what to do with it."""

from memlake.hardware.differences import Difference, Differences, compare_report
from memlake.hardware.measuring import measure
from memlake.hardware.report import HardwareReport

__all__ = ["Difference", "Differences", "HardwareReport", "compare_report", "measure"]
