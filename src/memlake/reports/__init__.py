"""Reports: what memlake prints for people, one file per subject.

A report prints a result of `memlake.analysis` or `memlake.replaying` and computes no figures of its own. `terminal` has
the tables and paragraphs that all reports use. `health` checks the machine and reports on it. A command of
`memlake.cli` reads its arguments, computes a result and prints one report.
"""
