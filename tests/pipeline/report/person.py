"""A person at the page: clicks what is in view, types, presses keys, and reads what is in view. Nothing scrolls unless
a click does it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pipeline.report.browser import ANSWER_SECONDS_MAX, Look, Tab, opened

SCRIPT = (Path(__file__).parent / "walk.js").read_text()
KEYS = {
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
}


@dataclass(frozen=True, kw_only=True)
class Click:
    """On the link or field in view whose text has this."""

    on: str


@dataclass(frozen=True, kw_only=True)
class Type:
    """Into what was clicked."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Press:
    """A key: Tab, Enter."""

    key: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """What somebody wants to know, the way there from the top of the page, and what is in view at its end."""

    asks: str
    steps: Sequence[Click | Type | Press] = ()
    sees: Sequence[str] = ()

    @property
    def clicks(self) -> int:
        return sum(isinstance(one, Click) for one in self.steps)


def missed(page: Path, looks: Sequence[Look], tasks: Sequence[Task], folder: Path, before: str) -> list[str]:
    """A line for each task that did not lead to what it should in some look, with what was in view instead. A task that
    begins as the one before ended goes on from there."""

    async def work(tab: Tab) -> list[str]:
        found = []
        await tab.first(before)
        for look in looks:
            await tab.look_as(look)
            done: Sequence[Click | Type | Press] | None = None
            for number, task in enumerate(tasks):
                if done is None or task.steps[: len(done)] != done:
                    await tab.go(page.as_uri())
                    done = ()
                fault = await _done(tab, task, task.steps[len(done) :])
                done = task.steps if fault is None else None
                if fault is not None:
                    (folder / f"missed-{look.name}-{number}.png").write_bytes(await tab.picture(format="png"))
                    found.append(f"{look.name}: {task.asks} {fault}")
        return found

    return opened(folder, work)


async def _done(tab: Tab, task: Task, left: Sequence[Click | Type | Press]) -> str | None:
    for step in left:
        if isinstance(step, Click):
            place = await _ask(tab, f"person.target({json.dumps(step.on)})")
            if place is None:
                return f"There is no {step.on!r} in view to click on. In view: {await _ask(tab, 'person.seen()')}"
            await _click(tab, place)
        elif isinstance(step, Type):
            await tab.ask("Input.insertText", text=step.text)
        else:
            await _press(tab, step.key)
    view = await _ask(tab, "person.seen()")
    lacking = [text for text in task.sees if text not in view]
    return f"Not in view: {lacking}. In view: {view}" if lacking else None


async def _ask(tab: Tab, expression: str) -> Any:
    return await tab.run(f"{SCRIPT}\n{expression}")


async def _click(tab: Tab, place: dict[str, Any]) -> None:
    at = {"x": place["x"], "y": place["y"], "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        await tab.ask("Input.dispatchMouseEvent", type=kind, **at)
    if place["to"] is not None:
        await tab.there(place["to"])


async def _press(tab: Tab, key: str) -> None:
    """And, if that leads to another place of the page, until it is there."""
    at = await tab.run("document.activeElement.href ?? null")
    for kind in ("keyDown", "keyUp"):
        await tab.ask("Input.dispatchKeyEvent", type=kind, key=key, **KEYS[key])
    if key == "Enter" and at is not None:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await tab.there(at)
