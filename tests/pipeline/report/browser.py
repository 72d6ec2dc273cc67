"""A page in headless Chromium at a width and a colour scheme, measured and photographed over DevTools.

Chromium is Debian's package `chromium`. Where it is missing the test is skipped with the reason; with
MUSTER_REQUIRE=all (or =browser) it is installed with apt-get if we are root, else the test fails.
"""

import asyncio
import base64
import json
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from tests import machine_parts

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
START_SECONDS_MAX = 120
ANSWER_SECONDS_MAX = 120
MESSAGE_BYTES_MAX = 64 << 20
HEIGHT = 900
T = TypeVar("T")
MEASURE = (Path(__file__).parent / "measure.js").read_text()


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the page is looked at."""

    width: int
    dark: bool

    @property
    def name(self) -> str:
        return f"{self.width}-{'dark' if self.dark else 'light'}"


def found() -> str:
    """Path of Chromium; gives up when there is none."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        machine_parts.debian_packages("browser", "chromium")
        path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        machine_parts.give_up("browser", "no Chromium on this machine (Debian: apt install chromium)")
    assert path is not None
    return path


def measured(
    page: Path, looks: Sequence[Look], pictures: Path, then: str = "null", before: str = ""
) -> dict[Look, dict[str, Any]]:
    """What `measure.js` says of the page in each look; a PNG of each whole page lies in `pictures`. `then`: a script to
    run after that; its value is `then` of the result. `before`: one that runs before any of the page."""

    async def work(tab: Tab) -> dict[Look, dict[str, Any]]:
        await tab.first(before)
        return {look: await _look(tab, page, look, pictures, then) for look in looks}

    return opened(pictures, work)


def opened(folder: Path, work: Callable[["Tab"], Awaitable[T]]) -> T:
    """What `work` makes of a tab of a browser with its profile in `folder`."""
    return asyncio.run(_opened(found(), folder, work))


async def _opened(browser: str, folder: Path, work: Callable[["Tab"], Awaitable[T]]) -> T:
    profile = folder / "profile"
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "--hide-scrollbars", "about:blank"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            port = await _port(process.stderr)
        drained = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json") as answer:
                target = next(one for one in await answer.json() if one["type"] == "page")
            async with http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=MESSAGE_BYTES_MAX) as socket:
                result = await work(Tab(socket))
    finally:
        process.terminate()
        await process.wait()
    drained.cancel()
    return result


async def _port(errors: asyncio.StreamReader) -> int:
    while line := (await errors.readline()).decode(errors="replace"):
        if "DevTools listening on" in line:
            return int(line.rpartition("127.0.0.1:")[2].partition("/")[0])
    raise AssertionError("Chromium ended before it listened")


class Tab:
    """One page over DevTools: a command, its answer."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while True:
                answer = json.loads((await self._socket.receive()).data)
                if answer.get("id") == self._number:
                    assert "error" not in answer, answer
                    result: dict[str, Any] = answer["result"]
                    return result

    async def run(self, script: str) -> Any:
        answer = await self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def first(self, script: str) -> None:
        """Run the script before any of each page that is opened from now on."""
        await self.ask("Page.enable")
        await self.ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def look_as(self, look: Look) -> None:
        """Width and colours from now on."""
        phone = look.width < 600
        await self.ask(
            "Emulation.setDeviceMetricsOverride", width=look.width, height=HEIGHT, deviceScaleFactor=1, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if look.dark else "light"}
        await self.ask("Emulation.setEmulatedMedia", features=[scheme])

    async def go(self, address: str) -> None:
        """Open the page, from its top."""
        await self.ask("Page.navigate", url="about:blank")
        await self.there("about:blank")
        await self.ask("Page.navigate", url=address)
        await self.there(address)

    async def there(self, address: str) -> None:
        """Returns once the page of that address is loaded."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while True:
                try:
                    if await self.run(f"location.href === {json.dumps(address)} && document.readyState === 'complete'"):
                        return
                except AssertionError:  # of the page that is being left
                    continue

    async def picture(self, **parameters: Any) -> bytes:
        """A screenshot."""
        return base64.b64decode((await self.ask("Page.captureScreenshot", **parameters))["data"])


async def _look(tab: Tab, page: Path, look: Look, pictures: Path, then: str) -> dict[str, Any]:
    await tab.look_as(look)
    await tab.go(page.as_uri())
    found: dict[str, Any] = json.loads(await tab.run(MEASURE))
    (pictures / f"{look.name}.png").write_bytes(await tab.picture(format="png", captureBeyondViewport=True))
    found["then"] = await tab.run(then)
    return found
