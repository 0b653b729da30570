"""Drives Chromium through chromedriver, which speaks the WebDriver protocol: HTTP with JSON. Needs no other package."""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromedriver")


def missing_programs() -> list[str]:
    """Returns the programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class BrowserError(Exception):
    """chromedriver did not answer, or answered with an error."""


class Browser:
    """One headless Chromium with a window of its own. It ends with the `with` block."""

    def __init__(self, *, width: int = 1280, height: int = 900, javascript: bool = True) -> None:
        """Starts the browser.

        Args:
            width: the width of the window in pixels.
            height: the height of the window in pixels.
            javascript: whether pages may run scripts.
        """
        self._port = _free_port()
        self._process = subprocess.Popen(
            ["chromedriver", f"--port={self._port}", "--silent"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait_until_ready()
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            arguments += [f"--window-size={width},{height}", "--hide-scrollbars", "--force-color-profile=srgb"]
            options: dict[str, Any] = {"args": arguments, "binary": shutil.which("chromium")}
            if not javascript:
                options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{made['sessionId']}"
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ask("DELETE", self._session)
        finally:
            self._stop()

    def open(self, path: Path) -> None:
        """Opens a file and waits until its load event."""
        self.open_address(path.resolve().as_uri())

    def open_address(self, address: str) -> None:
        """Opens an address and waits until its load event."""
        self._ask("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Runs the body of a function in the page and returns its JSON value. A promise is awaited."""
        body = {"script": script, "args": list(arguments)}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    def wait_for(self, condition: str, seconds: float = 120) -> None:
        """Waits until an expression of the page is true.

        Raises:
            BrowserError: if it does not become true. The time only ends a wait that hangs.
        """
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise BrowserError(f"{condition} did not become true; the console says: {self.console()}")
            time.sleep(0.05)

    def command(self, name: str, **settings: Any) -> Any:
        """Sends a command of Chromium's own protocol."""
        return self._ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": settings})

    def press(self, keys: str) -> None:
        """Types keys into the focused element. The characters of WebDriver stand for special keys."""
        actions = [
            step for key in keys for step in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})
        ]
        self._ask("POST", f"{self._session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Presses the mouse at a place of the window, moves it and releases it."""
        moves: list[dict[str, Any]] = [
            {"type": "pointerMove", "x": start[0], "y": start[1], "duration": 0},
            {"type": "pointerDown", "button": 0},
        ]
        if end != start:
            middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
            moves += [{"type": "pointerMove", "x": x, "y": y, "duration": 60} for x, y in (middle, end)]
        moves.append({"type": "pointerUp", "button": 0})
        source = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self._ask("POST", f"{self._session}/actions", {"actions": [source]})

    def console(self) -> list[str]:
        """Returns the errors and warnings that the page has written to the console since the last call."""
        entries = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, path: Path) -> None:
        """Writes what the window shows as a PNG file."""
        path.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = json.load(error)["value"]
            raise BrowserError(f"{told['error']}: {told['message']}") from None

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                if self._ask("GET", "/status")["ready"]:
                    return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise BrowserError("chromedriver does not start") from None
            time.sleep(0.05)

    def _stop(self) -> None:
        # The group of chromedriver, which is its own session here: its browser ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 15)
        self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
