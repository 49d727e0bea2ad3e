"""Drives Chromium without a network, over a pipe of its DevTools protocol: pages, keys, clicks, screenshots."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["Browser", "need_chromium"]

_LIMIT_S: Final = 60.0


def need_chromium() -> str:
    """The program; the test is skipped where there is none."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium here (apt-get install chromium)")
    return found


class Browser:
    """One page in one headless browser; with `webgpu` it has a GPU in software."""

    def __init__(
        self, program: str, folder: Path, *, width: int = 1280, height: int = 900, webgpu: bool = False
    ) -> None:
        gpu = "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader" if webgpu else "--disable-gpu"
        to_read, to_write = os.pipe(), os.pipe()  # what the browser reads, and what it writes
        command = (
            f'exec "{program}" --headless --no-sandbox {gpu} --hide-scrollbars --remote-debugging-pipe '
            f'--user-data-dir="{folder}" --window-size={width},{height} --proxy-server=127.0.0.1:9 about:blank '
            f"3<&{to_read[0]} 4>&{to_write[1]}"
        )
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command],
            pass_fds=(to_read[0], to_write[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read[0])
        os.close(to_write[1])
        self._out, self._in = os.fdopen(to_read[1], "wb"), os.fdopen(to_write[0], "rb")
        self._number, self._left = 0, b""
        self.events: list[dict[str, Any]] = []
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A method of the page's protocol."""
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._out.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._in.fileno(), 1 << 16)
            if not data:
                raise RuntimeError("the browser has ended")
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        return dict(json.loads(text))

    def size(self, width: int, height: int) -> None:
        """The page's size in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def open(self, page: Path | str) -> float:
        """Open a page of edgemem's, a file or a URL; returns the seconds until it can be used."""
        begin = time.perf_counter()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not self.run("document.documentElement?.dataset.ready === 'true'"):
            if time.perf_counter() - begin > _LIMIT_S:
                raise TimeoutError(str(self.problems()))
            time.sleep(0.02)
        return time.perf_counter() - begin

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def frame(self) -> None:
        """Wait until what was asked for is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """`mouseMoved`, `mousePressed`, `mouseReleased` or `mouseWheel` at a place of the window."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """A click with the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key: str, text: str = "") -> None:
        """A key that is pressed and released."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def problems(self, home: str = "file:") -> list[str]:
        """Errors of scripts and of the console, refusals of the policy, and requests outside of `home`."""
        found = []
        for event in self.events:
            method, values = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(values["exceptionDetails"]))
            elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
                found.append(values["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
                found.append(str(values["args"]))
            elif method == "Network.requestWillBeSent" and not values["request"]["url"].startswith((home, "blob:")):
                found.append(values["request"]["url"])
        return found

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
