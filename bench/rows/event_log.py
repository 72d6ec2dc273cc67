"""CPU cost of logging ten thousand rebalances a minute, for the loop and for the thread that writes.

No cluster: one minute's events go through the product's own event log and log pipeline into a file on the real disk.
CPU time is measured, since other work on the machine distorts wall time. The minute's windows end when it says so.
"""

import heapq
import logging
import time
from collections.abc import Callable

from muster_coordinator.events import ASSIGNED, EXPELLED, LEFT, PREPARING, STABILIZED, Event, EventKind
from muster_coordinator.runtime.event_log import EventLog
from muster_coordinator.runtime.logs import start_logging

from bench.compare import DISK, Target
from bench.lab import Lab
from bench.row import Measured, Row
from bench.sides import Side

TIMES = 10_000
MINUTE_MS = 60_000
OF_A_REBALANCE = (LEFT, PREPARING, STABILIZED, ASSIGNED)
STOP_SECONDS_MAX = 60


class Minute:
    """The part of `ports.Loop` that an event log uses; time advances when `go_to` is called."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._calls: list[tuple[int, int, Callable[[], None]]] = []

    def monotonic_ms(self) -> int:
        return self._now_ms

    def call_at(self, monotonic_ms: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (monotonic_ms, len(self._calls), call))

    def go_to(self, now_ms: int) -> None:
        self._now_ms = now_ms
        while self._calls and self._calls[0][0] <= now_ms:
            heapq.heappop(self._calls)[2]()


def event(kind: EventKind, number: int) -> Event:
    fields: dict[str, object] = dict.fromkeys(kind.fields, 3)
    texts = ("consumer_group", "member", "leader", "client_id", "client_host", "reason")
    return Event(kind, fields | {name: f"{name}-of-a-client-{number:06}" for name in texts if name in fields})


def minute_ms(lab: Lab, kinds: tuple[EventKind, ...]) -> tuple[float, float]:
    """CPU milliseconds of (the loop, the writing thread) for `TIMES` events of each kind."""
    minute = Minute()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    path = lab.folder / "events.log"
    try:
        with path.open("w", encoding="utf-8") as stream:
            pipeline = start_logging("info", stream=stream, broker=0)
            tell = EventLog(minute)
            began, all_began = time.thread_time(), time.process_time()
            for number in range(TIMES):
                minute.go_to(MINUTE_MS * number // TIMES)
                for kind in kinds:
                    tell(event(kind, number))
            minute.go_to(2 * MINUTE_MS)
            told = time.thread_time() - began
            assert pipeline.stop(STOP_SECONDS_MAX)
            assert pipeline.dropped == 0
            everything = time.process_time() - all_began
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        path.unlink(missing_ok=True)
    return told * 1_000, (everything - told) * 1_000


def measure(side: Side, lab: Lab) -> Measured:
    loop_ms, thread_ms = minute_ms(lab, OF_A_REBALANCE)
    expelling_loop_ms, expelling_thread_ms = minute_ms(lab, (EXPELLED,))
    return {
        "rebalances, loop": [loop_ms],
        "rebalances, thread": [thread_ms],
        "expulsions, loop": [expelling_loop_ms],
        "expulsions, thread": [expelling_thread_ms],
    }


ROWS = (
    Row(
        name="event_log",
        title="The log of ten thousand rebalances a minute",
        how="Processor time of a minute, of the loop that tells and of the thread that writes to a file: 10,000 "
        "rebalances of four events each, of which some are written and the others summed up; and 10,000 expulsions, "
        "each of which is written. A minute has 60,000 ms.",
        units={
            "rebalances, loop": "ms",
            "rebalances, thread": "ms",
            "expulsions, loop": "ms",
            "expulsions, thread": "ms",
        },
        measure=measure,
        sides=(DISK,),
        targets=(
            Target(figure="rebalances, loop", at_most=600, worst=True, side=DISK),
            Target(figure="expulsions, loop", at_most=600, worst=True, side=DISK),
        ),
    ),
)
