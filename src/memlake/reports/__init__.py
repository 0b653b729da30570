"""Reports: what memlake prints for people, one file per subject.

A report lays out an answer of `memlake.analysis` or `memlake.replaying`; it computes no figures of its own. `terminal`
has the tables and paragraphs that all reports share. `health` reports on the machine. A command of `memlake.cli` reads
its arguments, asks its question and calls one report.
"""
