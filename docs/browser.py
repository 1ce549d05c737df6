"""A headless Chromium: it draws the explorer's pictures, and the page's tests run in it.

The DevTools protocol runs over two file descriptors (`--remote-debugging-pipe`), so neither a port
nor a library is needed. The browser reaches this machine only: every other name fails to resolve.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from select import select
from time import monotonic
from typing import Any, Final

COMMANDS: Final = ("chromium", "chromium-browser", "google-chrome")
ANSWER_SECONDS: Final = 120.0
_BEYOND: Final = 10  # above the descriptors that the browser uses

_ARGUMENTS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)

FONTS: Final = Path("/usr/share/fonts/truetype/dejavu")
_FONT_SETTINGS: Final = f"""<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{FONTS}</dir><cachedir prefix="cwd">fonts</cachedir>
<match><edit name="family" mode="prepend" binding="strong"><string>DejaVu Sans</string></edit>
</match>
<match><test name="family"><string>ui-monospace</string></test>
<edit name="family" mode="prepend_first" binding="strong"><string>DejaVu Sans Mono</string></edit>
</match>
</fontconfig>"""
"""Pictures differ by their fonts, so the browser has DejaVu only, where it is installed."""


class BrowserError(Exception):
    """The browser is missing, has ended, or a script in it has failed."""


class Page:
    """One tab.

    Attributes:
        requests: Requested addresses, in order, without data: and blob: URLs.
        problems: Errors on the page's console, and scripts' exceptions.
    """

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width: int, height: int, *, scale: float = 1.0, dark: bool = False) -> None:
        """Set the window's size in CSS pixels, and light or dark colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Go to an address, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        page = json.dumps(url.partition("#")[0])
        self.wait(f"location.href.startsWith({page}) && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise.

        Raises:
            BrowserError: It has thrown.
        """
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details.get("text"))
            raise BrowserError(f"{script[:200]}: {thrown}")
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true.

        Raises:
            BrowserError: It stays false.
        """
        until = monotonic() + seconds
        while monotonic() < until:
            try:
                if self.run(f"Boolean({condition})"):
                    return
                self.run("new Promise((done) => setTimeout(done, 20))")
            except BrowserError as error:
                if "navigated" not in str(error):  # else the page is loaded anew
                    raise
        raise BrowserError(f"{condition} stays false; {self.problems}")

    def press(self, key: str, *, code: int = 0, text: str = "") -> None:
        """Press a key, such as "Tab" or "ArrowRight"."""
        common: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def take_picture(self) -> bytes:
        """A PNG of the window."""
        picture = self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(picture["data"])

    def note(self, method: str, parameters: dict[str, Any]) -> None:
        """Record an event's request or problem."""
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("data:", "blob:")):
                self.requests.append(url)
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details)))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.problems.append(f"{entry['text']} {entry.get('url', '')}".strip())


class Browser:
    """A running Chromium.

    Args:
        process: Its process.
        write: Descriptor for commands.
        read: Descriptor for answers and events.
    """

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._rest = b""
        self._last_id = 0
        self._pages: dict[str, Page] = {}

    def open_page(self) -> Page:
        """A new tab, with a session of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"])
        self._pages[attached["sessionId"]] = page
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method, and wait for its answer.

        Raises:
            BrowserError: It is refused, or there is no answer.
        """
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._send(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(method)
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            page = self._pages.get(answer.get("sessionId", ""))
            if page is not None and "method" in answer:
                page.note(answer["method"], answer["params"])

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._write, data) :]

    def _receive(self, method: str) -> dict[str, Any]:
        until = monotonic() + ANSWER_SECONDS
        while b"\0" not in self._rest:
            ready = select([self._read], [], [], max(0.0, until - monotonic()))[0]
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise BrowserError(f"{method}: no answer; exit status {self._process.poll()}")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


def find_command() -> str:
    """The path of Chromium.

    Raises:
        BrowserError: It is not installed.
    """
    for name in COMMANDS:
        if (found := shutil.which(name)) is not None:
            return found
    raise BrowserError(f"none of {', '.join(COMMANDS)} is on the PATH (apt-get install chromium)")


@contextmanager
def start_browser() -> Iterator[Browser]:
    """A browser with a new profile; both end with the block.

    Raises:
        BrowserError: It is not installed.
    """
    command = find_command()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as folder:
        their_read, write = os.pipe()
        read, their_write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        pipes = [fcntl(one, F_DUPFD_CLOEXEC, _BEYOND) for one in (their_read, their_write)]
        script = f'exec "$@" 3</proc/self/fd/{pipes[0]} 4>/proc/self/fd/{pipes[1]}'
        (Path(folder) / "fonts.conf").write_text(_FONT_SETTINGS, encoding="utf-8")
        fonts = {"FONTCONFIG_FILE": f"{folder}/fonts.conf"} if FONTS.is_dir() else {}
        # Chromium has no sandbox for root, as in a container.
        arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        log = Path(folder) / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                ["sh", "-c", script, "sh", command, *arguments, f"--user-data-dir={folder}"],
                cwd=folder, env={**os.environ, **fonts}, pass_fds=pipes,
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
            )  # fmt: skip
        for one in (their_read, their_write, *pipes):
            os.close(one)
        try:
            yield Browser(process, write, read)
        finally:
            os.close(write)
            os.close(read)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
