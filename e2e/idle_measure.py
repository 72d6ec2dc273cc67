"""Five minutes of a fleet that nobody uses, measured beside other tests and ended when they are over.

Problem: the minutes should cost none, so other tests run meanwhile; and the fleet should cost none after them: its
operator looks at 200 groups all the time, which was a quarter of a processor for the whole suite. Mechanism: a thread
starts the fleet, waits, takes down what was seen, and ends it. Whoever asks waits for the thread. Not here: what may
be seen (`test_idle`).
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.audit import Asked
from e2e.fleet import until
from e2e.idle_fleet import IdleFleet, idle_fleet

IDLE_S = 300.0
CONVERGED_S = 120.0
STARTED_S = 240.0
"""The API server, a cluster, 200 objects and their first passes; beside other tests."""
ENDED_S = 60.0


class GivenUp(Exception):
    """The run ended before the five minutes were over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Between the first status of the last group and `until_s`, both since the epoch."""

    since_s: float
    until_s: float
    writes: list[Asked]
    renewals: int
    """Of the Lease."""
    passes: float
    exit_code: int | None
    """Of the operator; None: it runs."""
    statuses: list[dict[str, Any]]


class IdleMeasure:
    """One thread; its errors are raised to who asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopped = threading.Event()
        self._converged: Future[float] = Future()
        self._seen: Future[Seen] = Future()
        self._thread = threading.Thread(target=self._run, name="idle", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """What was started ends too, if it has not yet."""
        self._stopped.set()
        self._thread.join(CONVERGED_S + ENDED_S)

    def converged_s(self) -> float:
        """When the last group had its first status, since the epoch."""
        return self._converged.result(STARTED_S)

    def seen(self) -> Seen:
        """What the five minutes held, when they are over."""
        return self._seen.result(STARTED_S + IDLE_S)

    def _run(self) -> None:
        try:
            with idle_fleet(self._folder) as fleet:
                since_s = until("200 groups with a status", fleet.converged_s, CONVERGED_S, every=1)
                assert since_s is not None
                self._converged.set_result(since_s)
                if self._stopped.wait(max(0.0, since_s + IDLE_S - time.time())):
                    raise GivenUp
                seen = taken_down(fleet, since_s)
            self._seen.set_result(seen)
        except BaseException as error:  # noqa: BLE001 - it belongs to who asks
            for future in (self._converged, self._seen):
                if not future.done():
                    future.set_exception(error)


def taken_down(fleet: IdleFleet, since_s: float) -> Seen:
    """What is there to be seen now."""
    until_s = time.time()
    return Seen(
        since_s=since_s,
        until_s=until_s,
        writes=[one for one in fleet.audit.writes() if one.at_s > since_s],
        renewals=sum(one.resource == "leases" and one.at_s > since_s for one in fleet.audit.asked()),
        passes=fleet.operator.metric("muster_operator_reconcile_total"),
        exit_code=fleet.operator.process.poll(),
        statuses=fleet.statuses(),
    )


@contextmanager
def idle_measure(folder: Path) -> Iterator[IdleMeasure]:
    """Under way; whatever it started has ended afterwards."""
    measure = IdleMeasure(folder)
    measure.begin()
    try:
        yield measure
    finally:
        measure.end()
