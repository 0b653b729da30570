"""Tables: what memlake prints for people, one file per subject.

A file of this package prints a result of a lower package as tables and sentences, and computes no figures of its own.
`page` and `terminal` have the tables and paragraphs that all of them use. A command of `memlake.cli` reads its
arguments, computes a result and prints it.
"""
