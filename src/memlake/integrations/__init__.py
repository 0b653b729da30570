"""Integrations: memlake inside other programs and libraries, one file each.

An integration imports the other library when it is used, not when memlake is imported. `perfetto` writes a file that
Perfetto draws. `cuda_core` and `numba` give the memory of pools to these libraries; programs import
their names from `memlake.cuda_core` and `memlake.numba`.
"""
