"""``memlake torch``: lets the variable MEMLAKE_TORCH install memlake in PyTorch programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.cli.command import add_command
from memlake.cli.output import print_json
from memlake.cli.replay_arguments import add_json

if TYPE_CHECKING:
    import argparse

    from memlake.cli.command import Commands

__all__ = ["add_to"]

_DESCRIPTION = """\
enable   writes one line into the site-packages of this environment, which Python runs at its start. From then on
         MEMLAKE_TORCH=lake python train.py
         makes memlake the CUDA allocator of that program. Without the variable nothing happens.
disable  removes the line.
status   says whether the line is there, and whether memlake can be installed in this PyTorch.

Other ways that need no line: `import memlake.torch; memlake.torch.install()` in the program, or
`python -m memlake.torch train.py`.
"""

_EXAMPLE = """\
exit code: 0; 1 if status finds that memlake cannot be installed in this PyTorch
"""


def add_to(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        "torch",
        _run,
        help="use memlake in PyTorch programs without changing them",
        description=_DESCRIPTION,
        epilog=_EXAMPLE,
    )
    parser.add_argument("action", choices=("enable", "disable", "status"))
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from memlake.torch import startup_file

    if arguments.action == "enable":
        path = startup_file.enable()
        _answer(
            arguments.json,
            {"file": str(path), "enabled": True},
            f"{path} is written. Now MEMLAKE_TORCH=lake python train.py uses memlake.",
        )
        return 0
    if arguments.action == "disable":
        was_there = startup_file.disable()
        text = "removed; MEMLAKE_TORCH has no effect any more." if was_there else "was not there; nothing was changed."
        path = startup_file.startup_file()
        _answer(arguments.json, {"file": str(path), "enabled": False, "changed": was_there}, f"{path} {text}")
        return 0
    return _status(as_json=arguments.json)


def _status(*, as_json: bool) -> int:
    from memlake.errors import MemlakeError
    from memlake.torch.shim_file import find_shim
    from memlake.torch.startup_file import startup_file
    from memlake.torch.torch_build import installed_build

    path = startup_file()
    is_enabled = path.exists()
    line = f"MEMLAKE_TORCH: {'works here' if is_enabled else 'has no effect; memlake torch enable'} ({path})"
    facts: dict[str, object] = {"file": str(path), "enabled": is_enabled}
    try:
        build = installed_build()
        shim = find_shim(build)
    except MemlakeError as error:
        _answer(as_json, {**facts, "installable": False, "reason": str(error)}, f"{line}\nPyTorch: {error}")
        return 1
    _answer(
        as_json,
        {**facts, "installable": True, "torch": build.version, "shim": str(shim)},
        f"{line}\nPyTorch: {build.version}; memlake can be its allocator (the shim is {shim})",
    )
    return 0


def _answer(as_json: bool, facts: dict[str, object], text: str) -> None:
    if as_json:
        print_json(facts)
    else:
        print(text)
