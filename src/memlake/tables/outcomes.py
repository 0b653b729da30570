"""The words of tables for the outcome of a replay."""

__all__ = ["OUTCOMES"]

OUTCOMES = {"ok": "fits", "unknown": "unknown", "oom": "out of memory"}
