"""Three in the morning: what somebody on call asks the page of 20,000 groups, each within three clicks from its top, on
a desktop and a phone, by day and by night; and that an old page says so, and is never green."""

from pathlib import Path
from typing import Any

import pytest
from muster_pipeline.report.page import About, build, render

from tests.pipeline.report import large_fleet
from tests.pipeline.report.browser import Look, Tab, opened
from tests.pipeline.report.fleet_tables import START_MS, fleet
from tests.pipeline.report.large_fleet import ABOUT, YOUNG
from tests.pipeline.report.person import Click, Press, Task, Type, missed

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

LOOKS = [Look(width=width, dark=dark) for width in (1280, 390) for dark in (False, True)]
CLICKS_MAX = 3
NEWEST = Click(on="STOP of slow, orders-0")
TASKS = (
    Task(asks="Is this page of now?", sees=("True 12 s ago",)),
    Task(asks="What is the newest trouble?", sees=("STOP of slow, orders-0, since 2025-06-15 00:04:00",)),
    Task(asks="Who owns the stuck partition?", steps=(NEWEST,), sees=("pod-0", "10.0.0.7")),
    Task(asks="Since when?", steps=(NEWEST,), sees=("2025-06-15 00:04:00",)),
    Task(
        asks="Why?",
        steps=(NEWEST,),
        sees=("No commit any more, and there is more to read", "last rebalance 2025-06-15 00:04:00, session timeout"),
    ),
    Task(asks="What to do?", steps=(NEWEST,), sees=("Look at the owner: is it alive, does it poll?",)),
    Task(asks="What does its group look like?", steps=(NEWEST, Click(on="slow")), sees=("1 STOP, 1 WARN", "pod-0")),
    Task(
        asks="What happened to its group?",
        steps=(NEWEST, Click(on="slow"), Click(on="Rebalances")),
        sees=("session timeout", "6 → 7"),
    ),
    Task(
        asks="How is a group whose name I know in part?",
        steps=(Click(on="Find"), Click(on="Part of its name"), Type(text="STUC"), Click(on="stuck")),
        sees=("1 STALL", "a record that fails again and again"),
    ),
    Task(
        asks="Who else was behind, and when did it begin?",
        steps=(Click(on="Heat-map"),),
        sees=("The fleet over time", "slow", "stuck", "1.2k"),
    ),
    Task(
        asks="Does it go without a mouse?",
        steps=(Press(key="Tab"), Press(key="Enter")),
        sees=("pod-0", "Look at the owner: is it alive, does it poll?"),
    ),
)


def test_every_question_is_answered_within_three_clicks(tmp_path: Path) -> None:
    assert all(task.clicks <= CLICKS_MAX for task in TASKS)
    page = large_fleet.pages(tmp_path / "pages", 20_000)
    faults = missed(page, LOOKS, TASKS, tmp_path, YOUNG)
    assert not faults, "\n\n".join(faults)


CLOCK = "now = {at}; Date.now = () => now; setInterval = (work) => {{ tick = work; }};"
STATE = """
(() => {
  const sound = getComputedStyle(document.documentElement).getPropertyValue("--sound").trim();
  const made = document.createElement("i");
  made.style.color = sound;
  document.body.append(made);
  const green = getComputedStyle(made).color;
  made.remove();
  const seen = () => {
    const told = document.getElementById("age");
    const kinds = ["color", "backgroundColor", "borderLeftColor", "fill", "stroke"];
    const isGreen = (one) => kinds.some((kind) => getComputedStyle(one)[kind] === green);
    const greens = [...document.querySelectorAll("body *")].filter(isGreen).length;
    const top = told.getBoundingClientRect().bottom < innerHeight / 3;
    return { text: told.innerText, kind: told.className, title: document.title, greens, top };
  };
  const first = seen();
  now += 50000;
  tick();
  return [first, seen()];
})()
"""
AGES = (
    (30_000, 12_000, "True 12 s ago, at 2025-06-15 00:05:10. It is made every 30 s."),
    (30_000, 60_001, "OLD PAGE: true 60 s ago, at 2025-06-15 00:05:10. It is made every 30 s."),
    (30_000, 3 * 3_600_000, "OLD PAGE: true 3 h ago"),
    (30_000, -120_000, "2 min ahead: whether this page is of now cannot be told"),
    (None, 3_600_001, "OLD PAGE: true 60 min ago"),
)
"""How often the tables are made, how long after that somebody looks, what the page says. The second is two rounds and
a millisecond; of a dead stream the third."""


def test_a_page_grows_old_while_it_is_open_and_an_old_one_is_never_green(tmp_path: Path) -> None:
    found = aged(tmp_path)
    for (_, _, said), states in zip(AGES, found, strict=True):
        assert said in states[0]["text"]
        for state in states:
            is_young = state["text"].startswith("True")
            assert state["kind"] == ("young" if is_young else "old")
            assert state["title"] == ("" if is_young else "OLD: ") + "Consumer groups of prod"
            assert (state["greens"] > 0) == is_young, state
            assert state["top"], "it says so on top"
    young, later = found[0]
    assert (young["kind"], later["kind"]) == ("young", "old"), "50 s later two rounds are missing"
    assert later["text"].startswith("OLD PAGE: true 62 s ago, at 2025-06-15 00:05:10. It is made every 30 s.")


def aged(folder: Path) -> list[list[dict[str, Any]]]:
    """What a page says at each of AGES, and 50 s later."""
    files = []
    for number, (every_ms, _, _) in enumerate(AGES):
        about = About(cluster="prod", source="x", run="r", version="1", as_of_ms=ABOUT.as_of_ms, every_ms=every_ms)
        files.append(folder / f"{number}.html")
        files[-1].write_text(render(build(about, fleet())))

    async def work(tab: Tab) -> list[list[dict[str, Any]]]:
        await tab.look_as(Look(width=390, dark=False))
        found = []
        for file, (_, after_ms, _) in zip(files, AGES, strict=True):
            await tab.first(CLOCK.format(at=START_MS + 310_000 + after_ms))
            await tab.go(file.as_uri())
            found.append(await tab.run(STATE))
        return found

    return opened(folder, work)
