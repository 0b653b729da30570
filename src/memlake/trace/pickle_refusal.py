"""The error messages for refused pickles. They name the byte, and the object that the pickle refers to."""

from __future__ import annotations

import pickletools
import re
from typing import TYPE_CHECKING

from memlake.units import format_bytes
from memlake.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake import _native
    from memlake.trace.failure import TraceFileError
    from memlake.trace.source import Source

__all__ = ["explain", "explain_memory"]

COPY_AGAIN = "copy or download the file again"
# The longest argument of an opcode except texts. If something is missing that close to the end, the end is missing.
LONGEST_ARGUMENT = 16

_OPCODES = {ord(opcode.code): opcode for opcode in pickletools.opcodes}
_OLD = frozenset({"INT", "LONG", "FLOAT", "STRING", "UNICODE", "GET", "PUT", "DICT", "LIST"})
_GLOBAL = re.compile(rb"([^\n]{0,200})\n([^\n]{0,200})\n")


def explain(source: Source, fault: _native.PickleFault) -> TraceFileError:
    """Returns the error for a pickle that the core refuses."""
    if fault.kind == "memory":
        return explain_memory(source, fault.at)
    reason, hint = _reason(source.data, fault)
    return source.error(reason, f"byte {fault.at}", hint)


def explain_memory(source: Source, at: int | None = None) -> TraceFileError:
    """Returns the error for a pickle whose content needs too much memory; `at`: the byte, if it is known."""
    return source.error(
        f"what it holds takes more memory than is allowed for a file of {format_bytes(len(source.data))}",
        None if at is None else f"byte {at}",
        "raise memory_limit, or record with stacks='python' or context=None",
    )


def _reason(data: bytes, fault: _native.PickleFault) -> tuple[str, str]:
    """Returns the reason and the hint."""
    number = fault.number
    if fault.kind == "missing" and fault.at >= len(data) - LONGEST_ARGUMENT:
        return "the pickle ends in the middle", COPY_AGAIN
    if fault.kind == "text_too_long":
        return f"a text of {number} bytes goes beyond the end", COPY_AGAIN
    if fault.kind == "opcode":
        return _refusal(number, data, fault.at, fault.words)
    reasons = {
        "missing": "the pickle is broken: it refers to what is not there",
        "nesting": f"is nested more than {number} times, which no snapshot is",
        "memo_order": f"place {number} of the memo is taken out of turn ({fault.other} is next)",
        "text_encoding": "a text is not UTF-8",
        "number_too_long": f"a number has {number} bytes, and {fault.other} are the most",
        "no_dict": "the pickle is broken: entries without a dict to put them in",
        "no_list": "the pickle is broken: items without a list to put them in",
        "key": f"a dict has a key of type {b''.join(fault.words).decode()}, and not a string",
        "protocol": f"pickle protocol {number} is not known (up to {fault.other} are)",
    }
    return reasons[fault.kind], ""


def _refusal(code: int, data: bytes, at: int, words: Sequence[bytes]) -> tuple[str, str]:
    """Returns the reason and the hint for an opcode that plain data does not need.

    Args:
        code: the opcode.
        data: the pickle.
        at: the offset of the opcode.
        words: the texts among the operands of the opcode.
    """
    known = _OPCODES.get(code)
    if known is None:
        return f"{code:#04x} is no pickle opcode", COPY_AGAIN
    if known.name in _OLD:
        return "it is a pickle of protocol 0", "save it with protocol 2 or later"
    name = ""
    if known.name in ("GLOBAL", "INST") and (match := _GLOBAL.match(data, at + 1)):
        name = b".".join(match.groups()).decode("utf-8", "replace")
    elif known.name == "STACK_GLOBAL":
        name = ".".join(word.decode("utf-8", "replace")[:200] for word in words)
    what = f"the global {quoted(name)} ({known.name})" if name else f"the opcode {known.name}"
    hint = "memlake imports nothing for a pickle; do not open it with anything else unless you trust it"
    return f"a snapshot has plain data only, and this asks for {what}", hint
