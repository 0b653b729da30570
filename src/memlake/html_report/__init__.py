"""The HTML report: what a file tells about a job and how each policy would serve it, in one file that works offline.

`report` makes a `Report` and is also `memlake.report`. `file_report` has the figures of one file, `document` the HTML.
`report_of_sweep` makes the page of a sweep. The scripts and styles of the page are in `assets/`.
"""

from memlake.html_report.file_report import FileReport, ReportWishes
from memlake.html_report.reporting import Report, report, report_of_diff
from memlake.html_report.sweep_report import SweepReport, report_of_sweep

__all__ = ["FileReport", "Report", "ReportWishes", "SweepReport", "report", "report_of_diff", "report_of_sweep"]
