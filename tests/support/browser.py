"""Headless Chromium, driven by the DevTools protocol over a pipe, with the standard library only.

Chromium reads commands from file descriptor 3 and answers on 4, as JSON terminated by a zero byte. It
has no network; requests of pages are recorded.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--no-default-browser-check", "--remote-debugging-pipe", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-quic",
    *("--disable-extensions", "--disable-domain-reliability", "--metrics-recording-only"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--lang=en", "--force-color-profile=srgb"),
)
KEYS = {  # key: code, number, text
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Backspace": ("Backspace", 8, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    " ": ("Space", 32, " "),
}
PATIENCE = 60.0
SHIFT = 8


def executable() -> str:
    """Find Chromium, or skip; where EVENRANK_NEED_BROWSER is set, its absence is a failure."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("EVENRANK_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = "Chromium is absent (install it, or name it in EVENRANK_BROWSER)"
        if os.environ.get("EVENRANK_NEED_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


class Browser:
    """A running Chromium; a context manager."""

    def __init__(self) -> None:
        """Start Chromium with a temporary profile."""
        program = executable()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # not 3 and 4, which the browser uses
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (*os.pipe(), *os.pipe())]
        theirs_in, self._write, self._read, theirs_out = ends

        def connect() -> None:
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=connect,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number = b"", 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the browser, and kill it if it does not react."""
        try:
            self.send("Browser.close")
        except (OSError, TimeoutError):
            self._process.kill()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events are stored."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise BrokenPipeError("the browser is gone")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def page(self, width: int = 1200, height: int = 900, *, dark: bool = False) -> Page:
        """Open an empty page."""
        return Page(self, width, height, dark)


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Browser, width: int, height: int, dark: bool) -> None:
        """Open the tab, and record its console and requests."""
        self._browser = browser
        self._target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)
        self.media(dark=dark)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to this tab."""
        return self._browser.send(method, self._session, **parameters)

    def close(self) -> None:
        """Close the tab."""
        self._browser.send("Target.closeTarget", targetId=self._target)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window; a narrow one is a phone."""
        phone = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def media(self, *, dark: bool = False, print_: bool = False) -> None:
        """Set the media features of style sheets."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="print" if print_ else "", features=[scheme])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until it is loaded."""
        loads = self._count("Page.loadEventFired")
        self.send("Page.navigate", url="about:blank")  # a change of the fragment alone loads nothing
        self._wait(loads + 1)
        self.send("Page.navigate", url=path.resolve().as_uri() + fragment)
        self._wait(loads + 2)

    def _wait(self, loads: int) -> None:
        end = time.monotonic() + PATIENCE
        while self._count("Page.loadEventFired") < loads:
            if time.monotonic() > end:
                raise TimeoutError("the page does not load")
            self.run("0")

    def _events(self, method: str) -> list[dict[str, Any]]:
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == method
        ]

    def _count(self, method: str) -> int:
        return len(self._events(method))

    @property
    def complaints(self) -> list[str]:
        """Console messages, exceptions and log entries."""
        said = [str(event["args"]) for event in self._events("Runtime.consoleAPICalled")]
        thrown = [str(event["exceptionDetails"]) for event in self._events("Runtime.exceptionThrown")]
        logged = [event["entry"]["text"] for event in self._events("Log.entryAdded")]
        return said + thrown + logged

    @property
    def requests(self) -> list[str]:
        """All requested addresses, that of the page included."""
        asked = [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in asked if url != "about:blank"]

    def run(self, script: str) -> Any:
        """Evaluate JavaScript and return the value."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the displayed text of an element."""
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText.trim()")

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys by name; `shift` holds it down."""
        for key in keys:
            code, number, text = KEYS[key]
            event = {
                "key": key,
                "code": code,
                "windowsVirtualKeyCode": number,
                "modifiers": SHIFT if shift else 0,
            }
            self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        for letter in text:
            self.send("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def screenshot(self, path: Path | None = None, *, whole: bool = False) -> bytes:
        """Return the visible part, or the whole page, as PNG."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        picture = base64.b64decode(data)
        if path is not None:
            path.write_bytes(picture)
        return picture
