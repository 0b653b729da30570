"""Reads pickles of plain data without Python's unpickler. It imports nothing and calls nothing.

A memory snapshot is a pickle of dicts, lists, strings and numbers. Python's unpickler imports and calls every object
that a pickle names. Even if all imports are refused, a pickle can make it exhaust memory (one large memo index is
enough) or compute forever (the hash of nested tuples). This module interprets only the opcodes that plain data needs
and refuses every other opcode by name. Errors name the byte. It limits the memory that the data needs:

- dictionary keys are strings, because a file cannot choose the hashes of strings;
- numbers have at most 128 bits, marks nest at most `DEEPEST` times, and memo indices are used in order;
- containers may need `AMPLIFICATION` times the size of the file; real snapshots need far less.

The interpreter does not recurse, so deeply nested data cannot overflow the stack.

Three quarters of a snapshot are stack frames, written as long runs of references to the memo. Of a list named
``frames`` the interpreter keeps only the innermost Python frame. It parses equal runs only once.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from memlake.trace.pickle_refusal import refusal
from memlake.trace.source import SMALL_CHANGE
from memlake.units import format_bytes

if TYPE_CHECKING:
    from memlake.trace.failure import TraceFileError
    from memlake.trace.source import Source

__all__ = ["unpickle"]

DEEPEST = 100
AMPLIFICATION = 32
LONGEST_NUMBER = 16
NEWEST_PROTOCOL = 5
# CPython's memory for a container with its garbage collector header, and for an entry of a dict.
CONTAINER_BYTES = 88
ENTRY_BYTES = 48
POINTER_BYTES = 8
# The memory that a remembered run of references needs in addition to its bytes.
RUN_BYTES = 200

FRAMES = "frames"
# BINGET has an argument of one byte, LONG_BINGET of four. A run is bounded because `re` stores each repetition.
_RUN = re.compile(rb"(?:h.|j.{4}){1,1000}", re.DOTALL)
_REFERENCE = re.compile(rb"h(.)|j(.{4})", re.DOTALL)
# The most bytes that are searched for the end of a run.
LONGEST_RUN = 5000

_INT32 = struct.Struct("<i")
_UINT32 = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")
_FLOAT = struct.Struct(">d")

_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False, ord(")"): ()}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


def unpickle(source: Source) -> Any:
    """Returns the plain data in a pickle, with stack frames cut to the innermost Python frame.

    Raises:
        TraceError: if the pickle has anything but plain containers and scalars, is broken or cut off, or needs too
            much memory. The error names the byte.
    """
    return _Interpreter(source).run()


class _Interpreter:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._data = source.data
        self._memo: list[Any] = []
        self._runs: dict[bytes, list[Any]] = {}
        allowed = SMALL_CHANGE + AMPLIFICATION * len(source.data)
        self._budget = min(allowed, source.memory_limit - len(source.data))

    def run(self) -> Any:
        """Interprets the pickle up to its STOP.

        It is one loop that tests the frequent opcodes first, because a pickle may have millions of opcodes.
        """
        data, memo = self._data, self._memo
        stack: list[Any] = []
        marked: list[list[Any]] = []
        at = 0
        try:
            while True:
                code = data[at]
                if code == 0x68 or code == 0x6A:  # BINGET, LONG_BINGET
                    if not stack and marked and _is_frames(marked[-1]):
                        at = self._push_frame(at, stack)
                    elif code == 0x68:
                        stack.append(memo[data[at + 1]])
                        at += 2
                    else:
                        stack.append(memo[_UINT32.unpack_from(data, at + 1)[0]])
                        at += 5
                elif code == 0x94:  # MEMOIZE
                    memo.append(stack[-1])
                    at += 1
                elif code == 0x8A:  # LONG1
                    stack.append(self._number(at, 2, data[at + 1]))
                    at += 2 + data[at + 1]
                elif code == 0x28:  # MARK
                    if len(marked) >= DEEPEST:
                        raise self._error(at, f"is nested more than {DEEPEST} times, which no snapshot is")
                    marked.append(stack)
                    stack = []
                    at += 1
                elif code == 0x4B:  # BININT1
                    stack.append(data[at + 1])
                    at += 2
                elif code == 0x4A:  # BININT
                    stack.append(_INT32.unpack_from(data, at + 1)[0])
                    at += 5
                elif code == 0x4D:  # BININT2
                    stack.append(data[at + 1] | data[at + 2] << 8)
                    at += 3
                elif code == 0x8C:  # SHORT_BINUNICODE
                    stack.append(self._text(at, 2, data[at + 1]))
                    at += 2 + data[at + 1]
                elif code == 0x7D:  # EMPTY_DICT
                    self._spend(at, CONTAINER_BYTES)
                    stack.append({})
                    at += 1
                elif code == 0x75:  # SETITEMS
                    items, stack = stack, marked.pop()
                    self._set_items(at, stack[-1], items)
                    at += 1
                elif code == 0x5D:  # EMPTY_LIST
                    self._spend(at, CONTAINER_BYTES)
                    stack.append([])
                    at += 1
                elif code == 0x65:  # APPENDS
                    items, stack = stack, marked.pop()
                    self._append(at, stack, items)
                    at += 1
                elif code == 0x61:  # APPEND
                    item = stack.pop()
                    self._append(at, stack, [item])
                    at += 1
                elif code == 0x74:  # TUPLE
                    items, stack = stack, marked.pop()
                    self._spend(at, CONTAINER_BYTES + POINTER_BYTES * len(items))
                    stack.append(tuple(items))
                    at += 1
                elif code == 0x2E:  # STOP
                    return stack.pop()
                else:
                    at = self._seldom(code, at, stack)
        except (IndexError, struct.error):
            if at >= len(data) - LONGEST_NUMBER:
                raise self._error(at, "the pickle ends in the middle", "copy or download the file again") from None
            raise self._error(at, "the pickle is broken: it refers to what is not there") from None

    def _seldom(self, code: int, at: int, stack: list[Any]) -> int:
        """Interprets a rare opcode and returns the offset of the next one."""
        data = self._data
        if code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
            return at + 1
        if code in (0x71, 0x72):  # BINPUT, LONG_BINPUT
            wanted, length = (data[at + 1], 2) if code == 0x71 else (_UINT32.unpack_from(data, at + 1)[0], 5)
            if wanted != len(self._memo):
                raise self._error(at, f"place {wanted} of the memo is taken out of turn ({len(self._memo)} is next)")
            self._memo.append(stack[-1])
            return at + length
        if code == 0x58 or code == 0x8D:  # BINUNICODE, BINUNICODE8
            head = 5 if code == 0x58 else 9
            length = (_UINT32 if code == 0x58 else _UINT64).unpack_from(data, at + 1)[0]
            stack.append(self._text(at, head, length))
            return at + head + int(length)
        if code == 0x47:  # BINFLOAT
            stack.append(_FLOAT.unpack_from(data, at + 1)[0])
            return at + 9
        if code in _TUPLES:
            count = _TUPLES[code]
            if len(stack) < count:
                raise IndexError
            self._spend(at, CONTAINER_BYTES)
            stack[-count:] = [tuple(stack[-count:])]
            return at + 1
        if code == 0x73:  # SETITEM
            value, key = stack.pop(), stack.pop()
            self._set_items(at, stack[-1], [key, value])
            return at + 1
        if code == 0x8B:  # LONG4
            length = _UINT32.unpack_from(data, at + 1)[0]
            stack.append(self._number(at, 5, length))
            return at + 5 + int(length)
        if code == 0x95:  # FRAME: a hint for reading ahead
            _UINT64.unpack_from(data, at + 1)
            return at + 9
        if code == 0x80:  # PROTO
            if data[at + 1] > NEWEST_PROTOCOL:
                raise self._error(at, f"pickle protocol {data[at + 1]} is not known (up to {NEWEST_PROTOCOL} are)")
            return at + 2
        raise self._error(at, *refusal(code, data, at, stack))

    def _text(self, at: int, head: int, length: int) -> str:
        begin = at + head
        if length > len(self._data) - begin:
            raise self._error(at, f"a text of {length} bytes goes beyond the end", "copy or download the file again")
        try:
            return self._data[begin : begin + length].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise self._error(begin + error.start, "a text is not UTF-8") from None

    def _number(self, at: int, head: int, length: int) -> int:
        if length > LONGEST_NUMBER:
            raise self._error(at, f"a number has {length} bytes, and {LONGEST_NUMBER} are the most")
        if at + head + length > len(self._data):
            raise IndexError
        return int.from_bytes(self._data[at + head : at + head + length], "little", signed=True)

    def _set_items(self, at: int, target: Any, items: list[Any]) -> None:
        keys = items[::2]
        if type(target) is not dict or len(items) % 2:
            raise self._error(at, "the pickle is broken: entries without a dict to put them in")
        if not set(map(type, keys)) <= {str}:
            wrong = next(key for key in keys if type(key) is not str)
            raise self._error(at, f"a dict has a key of type {type(wrong).__name__}, and not a string")
        self._spend(at, ENTRY_BYTES * (len(keys) + 1))
        target.update(zip(keys, items[1::2], strict=True))

    def _append(self, at: int, stack: list[Any], items: list[Any]) -> None:
        target = stack[-1]
        if type(target) is not list:
            raise self._error(at, "the pickle is broken: items without a list to put them in")
        if _is_frames(stack):
            items = [] if target else _innermost(items)
        self._spend(at, POINTER_BYTES * len(items))
        target.extend(items)

    def _push_frame(self, at: int, stack: list[Any]) -> int:
        """Pushes the innermost Python frame of the run of references at `at`, and returns the end of the run."""
        data = self._data
        # In most dicts the frames are the last entry, so their run ends with APPENDS and SETITEMS. If these two bytes
        # are an argument instead, the bytes before them are no remembered run, and the pattern finds the end.
        end = data.find(b"eu", at, at + LONGEST_RUN)
        kept = self._runs.get(data[at:end]) if end >= 0 else None
        if kept is None:
            match = _RUN.match(data, at)
            if match is None:
                raise IndexError
            run, end = match.group(), match.end()
            kept = self._runs.get(run)
            if kept is None:
                self._spend(at, RUN_BYTES + len(run))
                places = (int.from_bytes(short or long, "little") for short, long in _REFERENCE.findall(run))
                kept = self._runs[run] = _innermost([self._memo[place] for place in places])
        stack.extend(kept)
        return end

    def _spend(self, at: int, nbytes: int) -> None:
        self._budget -= nbytes
        if self._budget < 0:
            raise self._error(
                at,
                f"what it holds takes more memory than is allowed for a file of {format_bytes(len(self._data))}",
                "raise memory_limit, or record with stacks='python' or context=None",
            )

    def _error(self, at: int, reason: str, hint: str = "") -> TraceFileError:
        return self._source.error(reason, f"byte {at}", hint)


def _is_frames(stack: list[Any]) -> bool:
    """Returns True if the list on top of the stack is the value of the key "frames"."""
    return len(stack) >= 2 and type(stack[-1]) is list and type(stack[-2]) is str and stack[-2] == FRAMES


def _innermost(frames: list[Any]) -> list[Any]:
    """Returns a list with the first Python frame; frames are in order from the innermost outwards."""
    for frame in frames:
        if type(frame) is dict:
            filename = frame.get("filename")
            if type(filename) is str and filename.endswith(".py"):
                return [frame]
    return []
