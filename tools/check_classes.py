"""Checks that no C++ class has more than 30 public functions: a class with more has more than one responsibility.

Counted are the functions that a class or struct of core/, emulator/ or bindings/ declares as public, each overload and
each override once. Not counted are constructors, destructors and assignments, which every class has; deleted functions;
friends; functions of a base; and functions that a table (`#include "....inc"`) declares, because the table is one list.
A nested class is a class of its own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

LIMIT = 30
FOLDERS = ("core", "emulator", "bindings")
SUFFIXES = (".hpp", ".cpp", ".h")

# Comments, literals and directives say nothing about members. Each becomes white space with the same lines.
SILENT = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\''
    r"|^[ \t]*#(?:[^\n\\]|\\.)*",
    re.DOTALL | re.MULTILINE,
)
ATTRIBUTE = re.compile(r"\[\[.*?\]\]", re.DOTALL)
TOKEN = re.compile(r"\w+|<=>|<<|>>|::|->|\S")
ACCESS = ("public", "protected", "private")
# A declaration that begins with one of these is no function, whatever follows.
NO_FUNCTION = {"friend", "using", "typedef", "static_assert", "enum", "namespace"}
# Words before a bracket that is not the list of a function's parameters.
NOT_A_NAME = {"decltype", "noexcept", "alignas", "explicit", "requires"}


@dataclass
class Type:
    """A class, and how many public functions its text declares."""

    name: str
    line: int
    functions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Token:
    """A word or a sign, and its line."""

    text: str
    line: int


def tokens(source: str) -> list[Token]:
    """Returns the words and signs of a source that can belong to a declaration."""

    def blank(match: re.Match[str]) -> str:
        return " " + "\n" * match.group().count("\n")

    text = ATTRIBUTE.sub(blank, SILENT.sub(blank, source))
    found = []
    line, end = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        found.append(Token(match.group(), line))
    return found


def end_of_braces(read: list[Token], start: int) -> int:
    """Returns the index behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(read)):
        if read[i].text in ("{", "(", "["):
            depth += 1
        elif read[i].text in ("}", ")", "]"):
            depth -= 1
            if depth == 0:
                return i + 1
    return len(read)


def end_of_template(read: list[Token], start: int) -> int:
    """Returns the index behind the angle bracket that closes the one at `start`."""
    depth = 0
    i = start
    while i < len(read):
        text = read[i].text
        if text in ("(", "[", "{"):
            i = end_of_braces(read, i)
            continue
        if text in (";", "}"):
            return i
        depth += {"<": 1, "<<": 2, ">": -1, ">>": -2}.get(text, 0)
        i += 1
        if depth <= 0:
            return i
    return i


def class_at(read: list[Token], start: int) -> tuple[str, int] | None:
    """The name of the class whose definition begins with the word at `start`, and the index of its opening brace."""
    if read[start].text not in ("class", "struct", "union"):
        return None
    if start > 0 and read[start - 1].text == "enum":
        return None
    name = ""
    i = start + 1
    while i < len(read):
        text = read[i].text
        if text == "{":
            return name or "(without a name)", i
        if text == "<":
            i = end_of_template(read, i)
            continue
        if text == ":":  # its bases follow
            while i < len(read) and read[i].text not in ("{", ";"):
                i = end_of_template(read, i) if read[i].text == "<" else i + 1
            continue
        if not re.fullmatch(r"\w+|::", text):
            return None  # a declaration, a parameter of a template or a returned type
        if text == "alignas":
            i = end_of_braces(read, i + 1)
            continue
        if text not in ("final", "::"):
            name = text
        i += 1
    return None


def without_templates(declaration: list[Token]) -> list[Token]:
    """Returns the declaration without `template <...>` and `requires` at its beginning."""
    rest = declaration
    while rest and rest[0].text in ("template", "requires"):
        rest = rest[end_of_template(rest, 1) :] if rest[0].text == "template" else rest[1:]
    return rest


def function_named(declaration: list[Token], of: str) -> str | None:
    """The name of the function that the tokens up to its body or initialiser declare; None if they declare none, or one
    that is not counted. `of`: the name of the class."""
    rest = without_templates(declaration)
    words = [token.text for token in rest]
    if not words or words[0] in NO_FUNCTION:
        return None
    at = 0
    while at < len(words):
        text = words[at]
        if text == "operator":
            is_assignment = words[at + 1 : at + 3] == ["=", "("]
            return None if is_assignment else "operator" + "".join(words[at + 1 : at + 2])
        if text in ("=", "{", ";"):
            return None
        if text == "<":
            at = end_of_template(rest, at)
        elif text == "(":
            before = words[at - 1] if at > 0 else ""
            if before not in NOT_A_NAME:
                is_name = re.fullmatch(r"\w+", before) and words[at + 1 : at + 2] != ["*"]
                return before if is_name and before != of else None  # else a pointer, a constructor or the destructor
            at = end_of_braces(rest, at)
        else:
            at += 1
    return None


def members(read: list[Token], start: int, found: Type, is_public: bool) -> tuple[int, list[Type]]:
    """Reads the body of a class behind its opening brace. Returns the index behind the body, and the nested classes."""
    nested: list[Type] = []
    i = start
    declaration: list[Token] = []

    def end() -> None:
        texts = [token.text for token in declaration]
        name = function_named(declaration, found.name)
        if is_public and name is not None and texts[-2:] != ["=", "delete"]:
            found.functions.append(name)
        declaration.clear()

    while i < len(read):
        token = read[i]
        if token.text == "}":
            return i + 1, nested
        if token.text in ACCESS and i + 1 < len(read) and read[i + 1].text == ":" and not declaration:
            is_public = token.text == "public"
            i += 2
            continue
        opened = class_at(read, i) if not declaration or declaration[-1].text != "friend" else None
        if opened is not None:
            name, brace = opened
            inner = Type(f"{found.name}::{name}", token.line)
            short = Type(name, token.line)
            i, more = members(read, brace + 1, short, token.text != "class")
            inner.functions = short.functions
            nested.append(inner)
            nested.extend(Type(f"{found.name}::{type_.name}", type_.line, type_.functions) for type_ in more)
            declaration.append(Token("struct", token.line))  # of a member of this type, up to the semicolon
            continue
        if token.text == ";":
            end()
            i += 1
            continue
        if token.text == "{":
            after = end_of_braces(read, i)
            is_function = function_named(declaration, found.name) is not None or is_special(declaration, found.name)
            if is_function and after < len(read) and read[after].text not in (",", "{"):
                end()
                i = after
                if i < len(read) and read[i].text == ";":
                    i += 1
            else:
                declaration.append(Token("=", token.line))  # an initialiser
                i = after
            continue
        if token.text in ("(", "["):
            after = end_of_braces(read, i)
            declaration.extend(read[i:after])
            i = after
            continue
        declaration.append(token)
        i += 1
    return i, nested


def is_special(declaration: list[Token], of: str) -> bool:
    """Whether the tokens declare a constructor, the destructor or an assignment."""
    words = [token.text for token in declaration]
    for at in range(len(words) - 1):
        if words[at] == of and words[at + 1] == "(":
            return True
        if words[at] == "operator" and words[at + 1] == "=":
            return True
    return False


def classes(source: str) -> Iterator[Type]:
    """Yields the classes that a source defines, also those inside classes and functions."""
    read = tokens(source)
    i = 0
    while i < len(read):
        opened = class_at(read, i)
        if opened is None:
            i += 1
            continue
        name, brace = opened
        found = Type(name, read[i].line)
        end, nested = members(read, brace + 1, found, read[i].text != "class")
        yield found
        yield from nested
        i = end


def findings(root: Path) -> Iterator[Finding]:
    """Yields every class over the limit."""
    for path in files(root, *SUFFIXES):
        if path.parts[0] not in FOLDERS:
            continue
        for found in classes((root / path).read_text()):
            if len(found.functions) > LIMIT:
                yield Finding(
                    path,
                    found.line,
                    f"{found.name} has {len(found.functions)} public functions; the limit is {LIMIT}: split it by "
                    "responsibility",
                )


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
