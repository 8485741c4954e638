"""Takes pictures of pages in Debian's Chromium, by its DevTools protocol.

Protocol: https://chromedevtools.github.io/devtools-protocol/ (domains Target, Network, Page, Emulation).
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

from include.errors import SettingsError, Transient

__all__ = ["Browser"]

_START_S = 30.0


class Browser:
    """A Chromium without a window, with a profile of its own that goes with it. One page, one thread."""

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        self._size = {"width": width, "height": height}
        self._calls = 0

    def __enter__(self) -> Self:
        program = shutil.which("chromium")
        if program is None:
            raise SettingsError("chromium is missing", fix="Debian: apt-get install chromium.")
        self._profile = tempfile.TemporaryDirectory(prefix="lyrebird-browser-", ignore_cleanup_errors=True)
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--hide-scrollbars"]
        self._process = subprocess.Popen(
            [program, *words, f"--user-data-dir={self._profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._socket: ClientConnection = connect(self._address(), max_size=None)
        (page,) = [t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = str(attached["sessionId"])
        self._call("Page.enable")
        self._call("Emulation.setDeviceMetricsOverride", **self._size, deviceScaleFactor=1, mobile=False)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=10)
        self._profile.cleanup()

    def sign_in(self, url: str, cookie: str, value: str) -> None:
        """Send this cookie to the site of a URL."""
        self._call("Network.setCookie", name=cookie, value=value, domain=urlsplit(url).hostname, path="/")

    def picture(self, url: str, file: Path, *, settles_s: float = 4.0, whole: bool = False) -> None:
        """Open a page, give its scripts time to fill it, and write what it shows as PNG; `whole`: down to its end."""
        self._call("Page.navigate", url=url)
        # Airflow's pages go on asking their server for as long as they are open: there is no event for "filled".
        time.sleep(settles_s)
        taken = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(taken["data"]))

    def _address(self) -> str:
        port_file = Path(self._profile.name) / "DevToolsActivePort"
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            if port_file.exists() and len(lines := port_file.read_text().splitlines()) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            time.sleep(0.1)
        raise Transient("chromium does not answer", waited_s=_START_S)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": params}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=30))
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise Transient("chromium refuses", method=method, reason=answer["error"]["message"])
                return dict(answer["result"])
