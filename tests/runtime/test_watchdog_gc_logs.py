"""The watchdog sees long turns, full collections come when they should, log lines are whole JSON and never block."""

import gc
import io
import json
import logging
import threading
import weakref
from collections.abc import Iterator

import pytest
from muster_coordinator.runtime import watchdog as watchdog_module
from muster_coordinator.runtime.gc_policy import GROWTH_BYTES_MIN, IDLE_COLLECT_MS, GcPolicy, read_resident_bytes
from muster_coordinator.runtime.logs import BoundedHandler, start_logging
from muster_coordinator.runtime.watchdog import BEAT_MS, Watchdog

from tests.sim.loop import SimLoop, World


def test_the_watchdog_measures_how_late_the_loop_comes_round() -> None:
    world = World()
    loop = SimLoop(world)
    watchdog = Watchdog(loop)
    watchdog.start()
    world.run_for(1_000)
    assert watchdog.longest_turn_ms() == 0
    loop.pause()
    world.run_for(300)
    loop.resume()
    world.run_for(BEAT_MS)
    assert 300 - BEAT_MS <= watchdog.longest_turn_ms() <= 300
    watchdog.stop()


def test_the_longest_turn_is_forgotten_after_two_windows() -> None:
    world = World()
    loop = SimLoop(world)
    watchdog = Watchdog(loop)
    watchdog.start()
    loop.pause()
    world.run_for(200)
    loop.resume()
    world.run_for(BEAT_MS)
    assert watchdog.longest_turn_ms() >= 180
    world.run_for(121_000)
    assert watchdog.longest_turn_ms() == 0
    watchdog.stop()


class Large:
    """A variable of the turn that takes long."""


def test_a_turn_whose_stack_was_told_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables are a large request, and its answer: 45 MiB stayed in use until the next such turn."""
    told = threading.Event()
    lines: list[logging.LogRecord] = []

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record)
            told.set()

    def turn() -> weakref.ref[Large]:
        large = Large()
        assert told.wait(20), "the loop does not come round for ten times the limit"
        return weakref.ref(large)

    monkeypatch.setattr(watchdog_module, "STALL_MS", 20)
    handler, log = Told(), logging.getLogger(watchdog_module.__name__)
    log.addHandler(handler)
    watchdog = Watchdog(SimLoop(World()))
    watchdog.start()
    try:
        left = turn()
        gc.collect()
        assert left() is None
        assert len(lines) == 1
        assert "in turn" in vars(lines[0])["stack"]
    finally:
        watchdog.stop()
        log.removeHandler(handler)


@pytest.fixture
def gc_state() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("gc_state")
def test_start_freezes_and_turns_automatic_full_collections_off() -> None:
    policy = GcPolicy(SimLoop(World()), leads_nothing=lambda: False)
    gc.disable()  # as `muster server` does while it starts
    policy.start()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[2] >= 1_000_000
    assert gc.isenabled()


@pytest.mark.usefixtures("gc_state")
def test_full_collections_come_after_growth_or_while_leading_nothing() -> None:
    world = World()
    leads_nothing, resident = [False], [500 * 1024 * 1024]
    policy = GcPolicy(SimLoop(world), leads_nothing=lambda: leads_nothing[0], resident_bytes=lambda: resident[0])
    policy.start()
    world.run_for(10 * IDLE_COLLECT_MS)
    assert policy.collections == 0
    resident[0] += GROWTH_BYTES_MIN
    world.run_for(IDLE_COLLECT_MS)
    assert policy.collections == 0, "64 MiB on 500 is not yet a quarter"
    resident[0] += GROWTH_BYTES_MIN
    world.run_for(IDLE_COLLECT_MS)
    assert policy.collections == 1
    leads_nothing[0] = True
    world.run_for(2 * IDLE_COLLECT_MS + 1)
    assert policy.collections == 3


def test_resident_size_is_known_here() -> None:
    assert read_resident_bytes() > 1_000_000


@pytest.fixture
def root_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("root_logging")
def test_a_record_is_one_json_line_whatever_a_client_sent() -> None:
    stream = io.StringIO()
    pipeline = start_logging("info", stream=stream, broker=1)
    logging.getLogger("muster_coordinator.api").info("joined", extra={"client_id": 'a"\n{"level":"error"}'})
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("x").exception("failed")
    pipeline.stop()
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["message"], first["logger"], first["broker"]) == ("joined", "api", 1)
    assert first["client_id"] == 'a"\n{"level":"error"}'
    assert "ValueError: why" in second["error"]


def test_a_full_queue_drops_and_counts_and_never_blocks() -> None:
    handler = BoundedHandler(records_max=2)
    for n in range(5):
        handler.emit(logging.makeLogRecord({"msg": str(n)}))
    assert handler.dropped == 3


@pytest.mark.usefixtures("root_logging")
def test_drops_are_reported_once_there_is_room() -> None:
    entered, release = threading.Event(), threading.Event()

    class SlowStream(io.StringIO):
        def write(self, text: str) -> int:
            entered.set()
            assert release.wait(10)
            return super().write(text)

    stream = SlowStream()
    pipeline = start_logging("info", stream=stream)
    log = logging.getLogger("flood")
    log.info("first")
    assert entered.wait(10)
    for n in range(10_000 + 7):
        log.info("n%d", n)
    release.set()
    pipeline.stop(30)
    notes = [json.loads(line) for line in stream.getvalue().splitlines() if "log records dropped" in line]
    assert sum(note["records"] for note in notes) >= 7
    assert pipeline.dropped >= 7
