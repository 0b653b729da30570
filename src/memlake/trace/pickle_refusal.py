"""The error message for a refused pickle opcode. It names the opcode and the object that the pickle refers to."""

from __future__ import annotations

import pickletools
import re
from typing import Any

from memlake.trace.failure import shorten

__all__ = ["refusal"]

_OPCODES = {ord(opcode.code): opcode for opcode in pickletools.opcodes}
_OLD = frozenset({"INT", "LONG", "FLOAT", "STRING", "UNICODE", "GET", "PUT", "DICT", "LIST"})
_GLOBAL = re.compile(rb"([^\n]{0,200})\n([^\n]{0,200})\n")


def refusal(code: int, data: bytes, at: int, stack: list[Any]) -> tuple[str, str]:
    """Returns the reason and the hint for an opcode that plain data does not need.

    Args:
        code: the opcode.
        data: the pickle.
        at: the offset of the opcode.
        stack: the operands of the opcode.
    """
    known = _OPCODES.get(code)
    if known is None:
        return f"{code:#04x} is no pickle opcode", "copy or download the file again"
    if known.name in _OLD:
        return "it is a pickle of protocol 0", "save it with protocol 2 or later"
    name = ""
    if known.name in ("GLOBAL", "INST") and (match := _GLOBAL.match(data, at + 1)):
        name = b".".join(match.groups()).decode("utf-8", "replace")
    elif known.name == "STACK_GLOBAL":
        name = ".".join(part[:200] for part in stack[-2:] if isinstance(part, str))
    what = f"the global {shorten(name)} ({known.name})" if name else f"the opcode {known.name}"
    hint = "memlake imports nothing for a pickle; do not open it with anything else unless you trust it"
    return f"a snapshot has plain data only, and this asks for {what}", hint
