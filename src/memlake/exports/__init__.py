"""Files for other programs that need more than a trace: a replay. Formats of a trace alone are in `memlake.trace`."""

from memlake.exports.perfetto import save_perfetto

__all__ = ["save_perfetto"]
