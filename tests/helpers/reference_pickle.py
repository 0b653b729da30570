"""A second reader of pickles of plain data, in Python and as simple as possible: the core must agree with it.

It has the same rules as core/pickles/, but no limit of memory.
"""

from __future__ import annotations

import struct
from typing import Any

DEEPEST = 100
LONGEST_NUMBER = 16
NEWEST_PROTOCOL = 5

CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False, ord(")"): ()}
TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
# By opcode: the format of a number that follows it.
NUMBERS = {ord("K"): "<B", ord("M"): "<H", ord("J"): "<i"}
PLACES = {ord("h"): "<B", ord("j"): "<I"}
PUTS = {ord("q"): "<B", ord("r"): "<I"}
TEXTS = {0x8C: "<B", ord("X"): "<I", 0x8D: "<Q"}
LONGS = {0x8A: "<B", 0x8B: "<I"}


class RefusedError(Exception):
    """The pickle is refused: the kind of the fault as the core names it, and the byte."""

    def __init__(self, kind: str, at: int) -> None:
        super().__init__(kind, at)
        self.kind = kind
        self.at = at


def read_reference(data: bytes) -> Any:
    """Returns the plain data in a pickle, or raises RefusedError."""
    memo: list[Any] = []
    stack: list[Any] = []
    marked: list[list[Any]] = []
    at = 0
    try:
        while True:
            code = data[at]
            length = 1
            if code in CONSTANTS:
                stack.append(CONSTANTS[code])
            elif code in NUMBERS:
                number, length = _argument(data, at, NUMBERS[code])
                stack.append(number)
            elif code in PLACES:
                place, length = _argument(data, at, PLACES[code])
                stack.append(memo[place])
            elif code in PUTS:
                place, length = _argument(data, at, PUTS[code])
                if place != len(memo):
                    raise RefusedError("memo_order", at)
                memo.append(stack[-1])
            elif code == 0x94:  # MEMOIZE
                memo.append(stack[-1])
            elif code in TEXTS:
                nbytes, head = _argument(data, at, TEXTS[code])
                if nbytes > len(data) - at - head:
                    raise RefusedError("text_too_long", at)
                try:
                    stack.append(data[at + head : at + head + nbytes].decode("utf-8", "surrogatepass"))
                except UnicodeDecodeError as error:
                    raise RefusedError("text_encoding", at + head + error.start) from None
                length = head + nbytes
            elif code in LONGS:
                nbytes, head = _argument(data, at, LONGS[code])
                if nbytes > LONGEST_NUMBER:
                    raise RefusedError("number_too_long", at)
                if at + head + nbytes > len(data):
                    raise IndexError
                stack.append(int.from_bytes(data[at + head : at + head + nbytes], "little", signed=True))
                length = head + nbytes
            elif code == ord("G"):
                number, length = _argument(data, at, ">d")
                stack.append(number)
            elif code == ord("("):
                if len(marked) >= DEEPEST:
                    raise RefusedError("nesting", at)
                marked.append(stack)
                stack = []
            elif code == ord("}"):
                stack.append({})
            elif code == ord("]"):
                stack.append([])
            elif code == ord("u"):
                items, stack = stack, marked.pop()
                _set_items(at, stack[-1], items)
            elif code == ord("s"):
                value, key = stack.pop(), stack.pop()
                _set_items(at, stack[-1], [key, value])
            elif code == ord("e"):
                items, stack = stack, marked.pop()
                _append(at, stack[-1], items)
            elif code == ord("a"):
                item = stack.pop()
                _append(at, stack[-1], [item])
            elif code == ord("t"):
                items, stack = stack, marked.pop()
                stack.append(tuple(items))
            elif code in TUPLES:
                count = TUPLES[code]
                if len(stack) < count:
                    raise IndexError
                stack[-count:] = [tuple(stack[-count:])]
            elif code == 0x95:  # FRAME
                length = _argument(data, at, "<Q")[1]
            elif code == 0x80:  # PROTO
                protocol, length = _argument(data, at, "<B")
                if protocol > NEWEST_PROTOCOL:
                    raise RefusedError("protocol", at)
            elif code == ord("."):
                return stack[-1]
            else:
                raise RefusedError("opcode", at)
            at += length
    except (IndexError, struct.error):
        raise RefusedError("missing", at) from None


def _argument(data: bytes, at: int, form: str) -> tuple[Any, int]:
    """The argument of the opcode at `at`, and the length of both."""
    return struct.unpack_from(form, data, at + 1)[0], 1 + struct.calcsize(form)


def _set_items(at: int, target: Any, items: list[Any]) -> None:
    if type(target) is not dict or len(items) % 2:
        raise RefusedError("no_dict", at)
    if any(type(key) is not str for key in items[::2]):
        raise RefusedError("key", at)
    target.update(zip(items[::2], items[1::2], strict=True))


def _append(at: int, target: Any, items: list[Any]) -> None:
    if type(target) is not list:
        raise RefusedError("no_list", at)
    target.extend(items)
