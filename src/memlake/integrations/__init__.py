"""Integrations: memlake inside other programs and libraries, one file each.

An integration imports the other library when it is used, not when memlake is imported. pytest imports this package at
the start of every run, so its ``__init__`` imports nothing. `pytest_plugin` offers the emulator to tests.
"""
