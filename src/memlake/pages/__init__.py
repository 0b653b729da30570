"""Pages: what a file tells about a job and how each policy would serve it, as one HTML file that works offline.

`report` makes a `Report` and is also `memlake.report`. `file_report` has the figures of one file, `document` the HTML.
The scripts and styles of the page are in `assets/`.
"""

from memlake.pages.file_report import FileReport, ReportWishes
from memlake.pages.reporting import Report, report, report_of_diff

__all__ = ["FileReport", "Report", "ReportWishes", "report", "report_of_diff"]
