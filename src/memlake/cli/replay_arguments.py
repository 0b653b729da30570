"""The options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = [
    "add_capacity",
    "add_costs",
    "add_events",
    "add_json",
    "add_policies",
    "add_policy",
    "add_replays",
    "use_given_costs",
]


def add_capacity(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the capacity and the limit."""
    parser.add_argument(
        "--capacity",
        metavar="SIZE",
        help="the memory of the device, in bytes, as 80GiB, or the name of a GPU such as a100-80gb (default: the "
        "capacity that the trace gives)",
    )
    parser.add_argument(
        "--reserve",
        metavar="SIZE",
        help="what to subtract from the memory of a named GPU for the CUDA context (default: 512MiB)",
    )
    parser.add_argument(
        "--limit", metavar="SIZE", help="the most that the pool may hold, as a size or 90%% of the capacity"
    )


def add_events(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the event mode."""
    parser.add_argument(
        "--events",
        metavar="WHEN",
        default="immediate",
        help="when memory used on another stream is free: immediate, recorded (as the trace says), or lag:N rows "
        "after its free (default: %(default)s)",
    )


_WHAT_A_POLICY_IS = (
    "a policy (%(policies)s), with options behind it (stitch,frag_limit:64MiB), or a value of PYTORCH_ALLOC_CONF"
)


class _Names:
    """The names of policies. The core is loaded only when the help is printed."""

    def __init__(self, is_approximate: bool | None = None) -> None:
        self._is_approximate = is_approximate

    def __str__(self) -> str:
        from memlake.policies import known_policies

        every = [options() for options in known_policies().values()]
        chosen = [one for one in every if self._is_approximate in (None, one.capabilities.approximate)]
        return ", ".join(options.name for options in chosen)


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Adds the option for one policy, by default that of pools."""
    action = parser.add_argument(
        "--policy", metavar="NAME", default="lake", help=f"{_WHAT_A_POLICY_IS} (default: %(default)s, as of pools)"
    )
    vars(action)["policies"] = _Names()


def add_policies(parser: argparse.ArgumentParser) -> None:
    """Adds the option for policies, all by default."""
    action = parser.add_argument(
        "--policy",
        metavar="NAME",
        action="append",
        dest="policies",
        help=f"{_WHAT_A_POLICY_IS}, such as expandable_segments:True,max_split_size_mb:128; repeatable (default: all "
        "but %(approximate)s, whose figures are approximate)",
    )
    vars(action)["policies"] = _Names()
    vars(action)["approximate"] = _Names(is_approximate=True)


def add_replays(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that replays a trace under several policies."""
    add_policies(parser)
    add_events(parser)
    add_costs(parser)
    add_json(parser)


def add_costs(parser: argparse.ArgumentParser) -> None:
    """Adds the option for measured costs of driver calls."""
    parser.add_argument(
        "--costs",
        metavar="FILE",
        help="the costs of driver calls, from a report of `make test-gpu` or `memlake doctor --measure` (default: "
        "memlake's own table)",
    )


def use_given_costs(arguments: argparse.Namespace) -> None:
    """Uses the costs of the file that --costs names, if it was given."""
    if arguments.costs is not None:
        from memlake.replaying.costs import use_costs

        use_costs(arguments.costs)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
