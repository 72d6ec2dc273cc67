"""A log that nobody reads: the loop goes on, what is lost is counted and told later, and the end is not held up."""

import fcntl
import io
import json
import logging
import os
import threading
from collections.abc import Iterator

import pytest
from muster_coordinator.events import EXPELLED, Event
from muster_coordinator.runtime import logs
from muster_coordinator.runtime.event_log import EventLog
from muster_coordinator.runtime.logs import QUEUE_RECORDS_MAX, JsonFormatter, print_trace, start_logging

from tests.sim.loop import SimLoop, World

PIPE_BYTES = 4_096


@pytest.fixture(autouse=True)
def root_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Pipe:
    """A real one, of the smallest size."""

    def __init__(self) -> None:
        self.reads, writes = os.pipe()
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.stream = io.TextIOWrapper(os.fdopen(writes, "wb"), encoding="utf-8", line_buffering=True)

    def read_all(self) -> list[str]:
        """Until the writing end is closed."""
        with os.fdopen(self.reads, "r", encoding="utf-8") as reading:
            return reading.read().splitlines()


def expelled(number: int) -> Event:
    fields: dict[str, object] = dict.fromkeys(EXPELLED.fields, "x" * 100)
    return Event(EXPELLED, fields | {"member": f"m{number}"})


def test_a_full_pipe_that_nobody_reads_holds_up_nobody_and_what_is_lost_is_told_when_somebody_does() -> None:
    pipe, world = Pipe(), World(1)
    pipeline = start_logging("info", stream=pipe.stream)
    tell = EventLog(SimLoop(world))
    total = 3 * QUEUE_RECORDS_MAX
    for number in range(total):
        tell(expelled(number))
        if number % 4_000 == 0:
            world.run_for(10_001)  # the window ends: these are not bounded away
    # All came back, though nothing was ever read. Nobody waits for the pipe but the thread that writes.
    assert tell.counts["member expelled"] == total
    dropped = pipeline.dropped
    assert total - QUEUE_RECORDS_MAX - PIPE_BYTES <= dropped < total
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(pipe.read_all()))
    reader.start()
    assert pipeline.stop(30)
    pipe.stream.close()
    reader.join(30)
    read = [json.loads(line) for line in lines]
    lost = sum(line["records"] for line in read if line["message"] == "log records dropped")
    written = sum(line["message"] == "member expelled" for line in read)
    assert lost == dropped == pipeline.dropped
    assert written + lost == total


def test_the_end_of_a_process_does_not_wait_for_a_full_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe()
    pipeline = start_logging("info", stream=pipe.stream)
    for number in range(100):
        logging.getLogger("x").info("%d %s", number, "y" * 200)
    assert not pipeline.stop(0.05), "not everything is written"
    monkeypatch.setattr("sys.stderr", pipe.stream)
    print_trace(ValueError("the end"), 0.05)
    reader = threading.Thread(target=pipe.read_all)
    reader.start()
    pipeline._thread.join(30)  # it ends by the word that was queued for it
    for thread in threading.enumerate():
        if thread.name == "trace":
            thread.join(30)
    pipe.stream.close()
    reader.join(30)


def test_a_line_that_cannot_be_made_is_counted_and_the_next_one_is_written() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    stream = io.StringIO()
    pipeline = start_logging("info", stream=stream)
    logging.getLogger("x").info("odd", extra={"value": Odd()})
    logging.getLogger("x").info("wrong arguments: %d", "no number")
    logging.getLogger("x").info("next")
    assert pipeline.stop(10)
    read = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in read] == ["next", "log records dropped"]
    assert pipeline.dropped == read[1]["records"] == 2


HOSTILE = "a\x1b[31mb\x9b2Jc\x7fd\u2028e\u202ef\ud800g\x00h\nGröße"


def test_what_a_terminal_obeys_is_written_as_an_escape_and_letters_stay_readable() -> None:
    line = JsonFormatter({}).format(logging.makeLogRecord({"name": "x", "msg": "m", "client_id": HOSTILE}))
    assert all(character.isprintable() for character in line)
    assert "Größe" in line
    assert json.loads(line)["client_id"] == HOSTILE
    line.encode("utf-8")


def test_a_text_of_any_length_is_cut() -> None:
    line = JsonFormatter({}).format(logging.makeLogRecord({"name": "x", "msg": "m" * 10**6, "why": "w" * 10**6}))
    assert len(line) < 2 * logs.MESSAGE_CHARS_MAX + 1_000
