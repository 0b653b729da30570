"""Another Python process that does what a test says, step by step, so that a test decides what happens before what."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from types import TracebackType

    from typing_extensions import Self

# Every line of its standard input is a program, or an expression whose value it prints.
_LOOP = """
import ast, sys
names = {}
for line in sys.stdin:
    kind, code = ast.literal_eval(line)
    try:
        answer = ("ok", eval(code, names) if kind == "ask" else exec(code, names))
    except BaseException as error:
        answer = (type(error).__name__, str(error))
    print(repr(answer), flush=True)
"""


class RemoteError(Exception):
    """What the other process raised."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class Remote:
    """One such process. It may be given a socket, which it has as `over`."""

    def __init__(self, over: socket.socket | None = None) -> None:
        inherited = [] if over is None else [over.fileno()]
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=inherited,
            env=os.environ,
        )
        if over is not None:
            self.run(f"import socket; over = socket.socket(fileno={over.fileno()})")
            over.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, program: str) -> None:
        """Runs statements, and waits until they are done."""
        self.begin(program)
        self.finish()

    def ask(self, expression: str) -> Any:
        """The value of an expression; something that has a literal."""
        self._write("ask", expression)
        return self.finish()

    def begin(self, program: str) -> None:
        """Lets it run statements; `finish` waits for them."""
        self._write("run", textwrap.dedent(program))

    def finish(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RemoteError("Ended", f"the process ended with {self._process.wait()}")
        kind, value = ast.literal_eval(line)
        if kind != "ok":
            raise RemoteError(kind, value)
        return value

    def kill(self) -> None:
        """``kill -9``, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """Lets it exit as a program does, and gives its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()

    def _write(self, kind: str, code: str) -> None:
        assert self._process.stdin is not None
        print(repr((kind, code)), file=self._process.stdin, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
