"""A headless Chromium, driven over its own debugging protocol: pages, real clicks, screenshots.

Needs `chromium` (or `chromium-browser`, `google-chrome`) on PATH, and nothing from Python beyond `websockets`, which
comes with Dagster's web server.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import connect

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root in a container there is no sandbox to be had; without the others Chromium calls home at every start.
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]

#: A spinner that turns is drawn sixty times a second, which without a graphics card is most of what Chromium does here.
_STILL = """addEventListener('DOMContentLoaded', () => {
  const style = document.createElement('style')
  style.textContent = '*, *::before, *::after { animation: none !important; transition: none !important }'
  document.head.append(style)
})"""


def says(*texts: str) -> str:
    """JavaScript: the element `e` shows exactly one of these. Each element that is asked what it shows costs a layout:
    those with much more text are not asked."""
    most = max(map(len, texts)) + 20
    return f"(e.textContent.length <= {most} && {json.dumps(texts)}.includes(e.innerText?.trim()))"


class Browser:
    """One window. Waits are in seconds of wall clock; a wait that ends in vain raises AssertionError with the page's
    text.
    """

    def __init__(self, profile: Path, width: int = 1400, height: int = 900) -> None:
        program = next((found for name in _NAMES if (found := shutil.which(name))), None)
        assert program, (
            f"none of {', '.join(_NAMES)} on PATH (Debian: apt-get install chromium; make browser)"
        )
        log = (profile.parent / "chromium.log").open("w+")
        self._process = subprocess.Popen(
            [
                program,
                *_FLAGS,
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            stdout=log,
            stderr=log,
        )
        port = self._port(profile / "DevToolsActivePort")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            page = next(p for p in json.load(answer) if p["type"] == "page")
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None)
        self._number = 0
        self._command("Page.enable")
        self._command("Page.addScriptToEvaluateOnNewDocument", source=_STILL)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", **size)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=20)

    def goto(self, url: str) -> None:
        """Open a page; what it shows is to be waited for."""
        self._command("Page.navigate", url=url)

    def goto_until(self, url: str, text: str, seconds: float) -> None:
        """Open a page until it shows `text`: anew every 15 seconds, for not all pages of Dagster refresh themselves."""
        deadline = time.monotonic() + seconds
        while True:
            self.goto(url)
            try:
                return self.wait_for(text, 15)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self._command("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    def text(self) -> str:
        """What the page shows."""
        return self.evaluate("document.body ? document.body.innerText : ''") or ""

    def wait(self, script: str, seconds: float = 60, what: str | None = None) -> Any:
        """Until the expression is true."""
        began = time.monotonic()
        while not (value := self.evaluate(script)):
            waited = time.monotonic() - began
            assert waited < seconds, f"{what or script}: not within {seconds} s\n{self.text()}"
            # To ask costs a layout of the page: what takes long is asked for less often.
            time.sleep(min(1.0, 0.2 + waited / 20))
        return value

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Until the page shows `text`."""
        self.wait(f"document.body && document.body.innerText.includes({json.dumps(text)})", seconds, text)

    def click(
        self, text: str, seconds: float = 60, within: str = "document.body", shift: bool = False
    ) -> None:
        """Press and release the mouse on what says exactly `text`, once it is there, enabled, and has come to rest.
        `within`: JavaScript of the element that it is in.
        """
        # The innermost one: links of Dagster's UI are spans as often as buttons.
        find = (
            f"[...({within} ?? document.head).querySelectorAll('*')]"
            f".filter(e => {says(text)} && !e.closest('button')?.disabled).pop()"
        )
        self.wait(f"!!({find})", seconds, f"something to click that says {text!r}")
        self.evaluate(f"({find}).scrollIntoView({{block: 'center'}})")
        x, y = self._at_rest(find)
        # Eight is the bit of the shift key.
        button = {"x": x, "y": y, "button": "left", "clickCount": 1, "modifiers": 8 if shift else 0}
        for kind in ("mousePressed", "mouseReleased"):
            self._command("Input.dispatchMouseEvent", type=kind, **button)

    def _at_rest(self, find: str) -> list[float]:
        """The middle of an element that pages may still be moving, or covering: the same at two looks, and on top."""
        middle = (
            f"(e => {{ const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;"
            f" const top = document.elementFromPoint(x, y);"
            f" return top && (top.contains(e) || e.contains(top)) ? [x, y] : null }})({find})"
        )
        before, deadline = None, time.monotonic() + 30
        while (now := self.evaluate(middle)) != before or now is None:
            assert time.monotonic() < deadline, f"{find}: does not come to rest\n{self.text()}"
            before = now
            time.sleep(0.2)
        return now

    def point_away(self) -> None:
        """Move the mouse into the corner: messages under it would stay."""
        self._command("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)

    def fill(self, placeholder: str, text: str) -> None:
        """Type into the field that shows `placeholder` while it is empty."""
        field = f"document.querySelector({json.dumps(f'[placeholder={json.dumps(placeholder)}]')})"
        self.wait(f"!!({field})", what=f"a field for {placeholder!r}")
        self.evaluate(f"({field}).focus()")
        self._command("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        """Save the window as PNG."""
        path.write_bytes(base64.b64decode(self._command("Page.captureScreenshot", format="png")["data"]))

    def _port(self, file: Path) -> int:
        deadline = time.monotonic() + 60
        while not (file.is_file() and (match := re.match(r"(\d+)\n", file.read_text()))):
            assert time.monotonic() < deadline, "Chromium did not start"
            assert self._process.poll() is None, "Chromium ended at once"
            time.sleep(0.1)
        return int(match.group(1))

    def _command(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
