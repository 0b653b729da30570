"""The options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["WHAT_A_POLICY_IS", "add_capacity", "add_events", "add_json", "add_policies"]


def add_capacity(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the capacity and the limit."""
    parser.add_argument(
        "--capacity",
        metavar="SIZE",
        help="the memory of the device, in bytes or as 80GiB (default: what the trace tells, if it does)",
    )
    parser.add_argument("--limit", metavar="SIZE", help="what may be held at most, as a size or 90%% of the capacity")


def add_events(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the event mode."""
    parser.add_argument(
        "--events",
        metavar="WHEN",
        default="immediate",
        help="when memory used on another stream is free: immediate, recorded (as the trace says), or lag:N rows "
        "after its free (default: %(default)s)",
    )


WHAT_A_POLICY_IS = "a policy (lake, caching, expandable, stitch, direct, driver) or what PYTORCH_ALLOC_CONF would say"
"""The help text for a policy argument."""


def add_policies(parser: argparse.ArgumentParser) -> None:
    """Adds the option for policies, all by default."""
    parser.add_argument(
        "--policy",
        metavar="NAME",
        action="append",
        dest="policies",
        help=f"{WHAT_A_POLICY_IS}, such as expandable_segments:True,max_split_size_mb:128; repeatable (default: all "
        "but driver, whose figures are approximate)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
