"""The functions of ``memlake.h``, read from the header: their names, and the library with their types."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

import memlake
from memlake.libraries import include_directory

HEADER = Path(include_directory()) / "memlake.h"

_DECLARATION = re.compile(r"^MEMLAKE_API ([^;(]*?)(memlake_\w+)\(([^;]*)\);", re.MULTILINE)
_NUMBERS = {
    "void": None,
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "ssize_t": ctypes.c_ssize_t,
    "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "double": ctypes.c_double,
}


def declared_functions(header: str) -> list[str]:
    """The names of the functions that a header declares."""
    return [name for _, name, _ in _DECLARATION.findall(header)]


def _type_of(text: str) -> type | None:
    if "const char*" in text:
        return ctypes.c_char_p
    if "*" in text:
        return ctypes.c_void_p
    return _NUMBERS[text.split()[0]]


def _parameters(text: str) -> list[str]:
    """The parameters; a pointer to a function has commas of its own."""
    flat = re.sub(r"\(\*\w*\)\([^)]*\)", "*", " ".join(text.split()))
    return [] if flat == "void" else flat.split(", ")


@cache
def typed_library() -> ctypes.CDLL:
    """The library, with the types of every function of the header."""
    library = ctypes.CDLL(memlake.native_library())
    for result, name, parameters in _DECLARATION.findall(HEADER.read_text()):
        function = getattr(library, name)
        function.restype = _type_of(result)
        function.argtypes = [_type_of(parameter) for parameter in _parameters(parameters)]
    return library


def last_error() -> str:
    """The reason of this thread's last failure."""
    return typed_library().memlake_last_error().decode()
