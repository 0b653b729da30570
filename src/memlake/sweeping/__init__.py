"""Sweeps: many files under many settings, on the cores of this machine or on a cluster.

`sweep` is also `memlake.sweep`. It makes a `Task` of each file and its settings, gives the tasks to an engine, keeps
each result in a `ResultsFile`, and joins them to a `Sweep`. `load_sweep` reads a sweep from such a file again. A task
is a pure function of the content of its file and of its settings, so every engine gives the same results.
"""

from memlake.sweeping.engines import ENGINES
from memlake.sweeping.loading import is_sweep_file, load_sweep
from memlake.sweeping.result import Sweep, SweepFile, SweepSetting
from memlake.sweeping.running import sweep
from memlake.sweeping.settings import Setting

__all__ = ["ENGINES", "Setting", "Sweep", "SweepFile", "SweepSetting", "is_sweep_file", "load_sweep", "sweep"]
