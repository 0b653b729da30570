"""Every sentence that a check of a pool can report is reported in a test that breaks exactly that.

The checks are the calls of `report.add(` in core/. Their sentences are compared with those that the tables in
tests/native/test_guards_*.cpp expect, where `*` stands for what varies. A conditional between two literals is two
sentences. Within a file no two calls may say the same: a test could not tell which of them spoke.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from source_tree import Finding, files, report, root_from_arguments

TABLES = re.compile(r"tests/native/test_guards_\w+\.cpp")
# Literals, comments and single characters; what is none of them may not be mistaken for one.
TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<other>\'\\?.\'|\s+|.)', re.DOTALL
)
CALL = re.compile(r"\breport\s*(?:\.|->)\s*add\(")
PARAMETER = re.compile(r"\bInvariantReport\s*&?\s*(\w+)\s*[,;){=]")


@dataclass(frozen=True)
class Sentence:
    """One sentence, where it stands and whose it is: a file of core/, named from the root."""

    file: str
    text: str
    path: Path
    line: int


def tokens(source: str) -> Iterator[tuple[str, str]]:
    """The kinds and the texts of a source, without comments and space."""
    for match in TOKEN.finditer(source):
        if match.lastgroup != "comment" and not match.group().isspace():
            yield match.lastgroup or "", match.group()


def arguments(source: str) -> list[list[tuple[str, str]]]:
    """The arguments of a call, each as its tokens. `source` begins behind the opening parenthesis."""
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
    """The text of neighbouring literals; nothing if there is anything else."""
    if not argument or any(kind != "text" for kind, _ in argument):
        return None
    return "".join(text[1:-1] for _, text in argument)


def alternatives(argument: list[tuple[str, str]]) -> list[str]:
    """What an argument can add to a sentence: its text, one of two texts, or anything."""
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
    """Its number, from 1."""
    return source.count("\n", 0, position) + 1


def spoken(path: Path, source: str) -> Iterator[Sentence]:
    """What the checks in a file can say."""
    for call in CALL.finditer(source):
        parts = [alternatives(argument) for argument in arguments(source[call.end() :])]
        for choice in itertools.product(*parts):
            text = re.sub(r"\*+", "*", "".join(choice))
            yield Sentence(path.as_posix(), text, path, line_of(source, call.start()))


def expected(path: Path, source: str) -> Iterator[Sentence]:
    """What the tables in a test expect: a literal that names a file, then those that begin with an invariant."""
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
    """Sentences without a test, tests without a sentence, and sentences that a test cannot tell apart."""
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
