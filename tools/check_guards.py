"""Checks that every sentence that a check of a pool can report has a test that breaks exactly that invariant.

The checks are the calls of `report.add(` in core/. This tool compares their sentences with those in the tables of
tests/native/test_guards_*.cpp, where `*` stands for a variable part. A conditional between two literals counts as two
sentences. Two calls in one file must not have the same sentence, because a test could not tell them apart.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

TABLES = re.compile(r"tests/native/test_guards_\w+\.cpp")
# Literals, comments and other characters. Character literals are one token, because they may contain a quote.
TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<other>\'\\?.\'|\s+|.)', re.DOTALL
)
CALL = re.compile(r"\breport\s*(?:\.|->)\s*add\(")
PARAMETER = re.compile(r"\bInvariantReport\s*&?\s*(\w+)\s*[,;){=]")


@dataclass(frozen=True)
class Sentence:
    """One sentence and its place. `file` is the file of core/ that reports it, relative to the root."""

    file: str
    text: str
    path: Path
    line: int


def tokens(source: str) -> Iterator[tuple[str, str]]:
    """Yields the kind and the text of each token of a source, without comments and white space."""
    for match in TOKEN.finditer(source):
        if match.lastgroup != "comment" and not match.group().isspace():
            yield match.lastgroup or "", match.group()


def arguments(source: str) -> list[list[tuple[str, str]]]:
    """Returns the tokens of each argument of a call. `source` begins after the opening parenthesis."""
    found: list[list[tuple[str, str]]] = [[]]
    depth = 0
    for kind, text in tokens(source):
        if kind == "other" and text in ")]}":
            if depth == 0:
                break
            depth -= 1
        if kind == "other" and text in "([{":
            depth += 1
        if kind == "other" and text == "," and depth == 0:
            found.append([])
        else:
            found[-1].append((kind, text))
    return found


def literal(argument: list[tuple[str, str]]) -> str | None:
    """Returns the text of adjacent literals; None if the argument has other tokens."""
    if not argument or any(kind != "text" for kind, _ in argument):
        return None
    return "".join(text[1:-1] for _, text in argument)


def alternatives(argument: list[tuple[str, str]]) -> list[str]:
    """Returns the texts that an argument can add to a sentence: one literal, one of two literals, or `*` for any."""
    text = literal(argument)
    if text is not None:
        return [text]
    plain = [text if kind == "other" else "" for kind, text in argument]
    if plain.count("?") == 1 and ":" in plain[plain.index("?") :]:
        question = plain.index("?")
        colon = plain.index(":", question)
        branches = [literal(argument[question + 1 : colon]), literal(argument[colon + 1 :])]
        if None not in branches:
            return [branch for branch in branches if branch is not None]
    return ["*"]


def line_of(source: str, position: int) -> int:
    """Returns the number of the line at a position, from 1."""
    return source.count("\n", 0, position) + 1


def spoken(path: Path, source: str) -> Iterator[Sentence]:
    """Yields the sentences that the checks in a file can report."""
    for call in CALL.finditer(source):
        parts = [alternatives(argument) for argument in arguments(source[call.end() :])]
        for choice in itertools.product(*parts):
            text = re.sub(r"\*+", "*", "".join(choice))
            yield Sentence(path.as_posix(), text, path, line_of(source, call.start()))


def expected(path: Path, source: str) -> Iterator[Sentence]:
    """Yields the sentences that the tables of a test expect: after the name of a file, the literals that begin with
    the number of an invariant."""
    file = ""
    runs: list[tuple[str, int]] = []
    is_behind_text = False
    for match in TOKEN.finditer(source):
        if match.lastgroup == "comment" or match.group().isspace():
            continue
        if match.lastgroup == "text":
            text = match.group()[1:-1]
            if is_behind_text:
                runs[-1] = (runs[-1][0] + text, runs[-1][1])
            else:
                runs.append((text, line_of(source, match.start())))
        is_behind_text = match.lastgroup == "text"
    for text, line in runs:
        if re.fullmatch(r"core/[\w/]+\.cpp", text):
            file = text
        elif re.match(r"I\d: ", text):
            yield Sentence(file, text, path, line)


def findings(root: Path) -> Iterator[Finding]:
    """Yields sentences without a test, tests without a sentence, and sentences that a test cannot tell apart."""
    said: list[Sentence] = []
    for path in files(root / "core", ".cpp", ".hpp"):
        source = (root / "core" / path).read_text()
        said.extend(spoken(Path("core") / path, source))
        for name in PARAMETER.finditer(source):
            if name[1] != "report":
                yield Finding(
                    Path("core") / path,
                    line_of(source, name.start()),
                    f'an InvariantReport is called "{name[1]}"; call it "report", or this check does not see it',
                )
    tested = [
        sentence
        for path in files(root, ".cpp")
        if TABLES.fullmatch(path.as_posix())
        for sentence in expected(path, (root / path).read_text())
    ]
    by_text: dict[tuple[str, str], Sentence] = {}
    for sentence in said:
        first = by_text.setdefault((sentence.file, sentence.text), sentence)
        if first is not sentence:
            yield Finding(
                sentence.path, sentence.line, f'says the same as line {first.line}, "{sentence.text}": tell them apart'
            )
    seen = {(sentence.file, sentence.text) for sentence in tested}
    for key, sentence in by_text.items():
        if key not in seen:
            yield Finding(
                sentence.path, sentence.line, f'no test breaks it and sees "{sentence.text}"; add one to test_guards_*'
            )
    for sentence in tested:
        if (sentence.file, sentence.text) not in by_text:
            yield Finding(
                sentence.path,
                sentence.line,
                f'expects "{sentence.text}", which {sentence.file or "no file"} never says',
            )


if __name__ == "__main__":
    raise SystemExit(report(findings(root_from_arguments())))
