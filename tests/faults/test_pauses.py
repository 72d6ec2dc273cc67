"""A pause that is found is told with what its clients asked and what the servers said meanwhile."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.faults.pauses import Pause, longest_pauses, story
from tests.faults.registers import RegisterLoad, now_us
from tests.sim import frames
from tests.sim.frames import Fetched
from tests.sim.history import FetchAsk

GROUP = "registers-5"
KEYS = (("registers", 0),)


def _load(since_us: int) -> RegisterLoad:
    """Answers at 100 and 900 ms; between them NOT_COORDINATOR at 300 ms, and one request that nobody answers."""
    load = RegisterLoad("127.0.0.1:1", 1)
    for sent_ms, answered_ms, error in ((50, 100, 0), (250, 300, 16), (400, None, None), (850, 900, 0), (950, 990, 0)):
        op = load.history.begin("c5-1", frames.FETCH, GROUP, FetchAsk(KEYS), since_us + sent_ms * 1_000)
        if answered_ms is not None and error is not None:
            op.answer, op.answered_us = Fetched(error, {}), since_us + answered_ms * 1_000
    load.refusals.append((since_us + 300_000, GROUP, "c5-1: error 16"))
    load.refusals.append((since_us + 300_000, "registers-1", "c1-1: error 16"))
    return load


def test_the_longest_time_without_success_is_found() -> None:
    since_us = now_us()
    assert longest_pauses(_load(since_us), since_us) == {GROUP: Pause(0.8, 0.1)}


def test_a_pause_is_told_with_what_was_asked_and_said(tmp_path: Path) -> None:
    since_us, began = now_us(), datetime.now(UTC)
    log = tmp_path / "server.log"

    def line(seconds: float, message: str) -> str:
        return json.dumps({"ts": (began + timedelta(seconds=seconds)).isoformat(), "message": message}) + "\n"

    log.write_text(
        line(-2.0, "long before") + "not of a server\n" + line(0.5, "leader elected") + "[1]\n" + line(5.0, "late")
    )
    text = "\n".join(story(_load(since_us), GROUP, Pause(0.8, 0.1), since_us, [log], datetime.now(UTC)))
    assert "leader elected" in text
    for outside in ("long before", "late", "not of a server", "c1-1"):
        assert outside not in text
    assert "c5-1: error 16" in text
    assert text.count("no answer") == 1
    assert text.count(" sends ") == 4
