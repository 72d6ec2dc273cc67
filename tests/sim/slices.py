"""I/O jobs that run in slices: between any two disk operations of a job the rest of the replica goes on.

A job gets a thread of its own, and exactly one thread runs at any time: the world hands the turn over and waits until
it comes back, so that a run stays deterministic. Before each disk operation the job gives the turn back, and the world
resumes it after a drawn while.
"""

import threading
from collections.abc import Callable
from typing import Any

from tests.sim.disk import PowerLoss

_here = threading.local()
STACK_SECONDS_MAX = 60
"""A turn that does not come back in real time is a dead-lock of the harness."""


class SlicedJob:
    """`step` runs the next slice; True: the job has ended, with `result` or `error`."""

    def __init__(self, job: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._job = job
        self._done = False
        self._aborted = False
        self._mine = threading.Semaphore(0)
        self._worlds = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self) -> bool:
        """In the world's thread."""
        self._mine.release()
        assert self._worlds.acquire(timeout=STACK_SECONDS_MAX), "a sliced job does not give the turn back"
        if self._done:
            self._thread.join()
        return self._done

    def abort(self) -> None:
        """The process is gone: the job ends where it stands."""
        if not self._done:
            self._aborted = True
            self.step()

    def _run(self) -> None:
        _here.job = self
        self._mine.acquire()
        try:
            self._check()
            self.result = self._job()
        except BaseException as error:  # noqa: BLE001  # handed to the world's thread
            self.error = error
        self._done = True
        self._worlds.release()

    def _check(self) -> None:
        if self._aborted:
            raise PowerLoss

    def give_turn(self) -> None:
        """In the job's thread."""
        self._worlds.release()
        self._mine.acquire()
        self._check()


def before_disk_operation() -> None:
    """Called by the disk: a sliced job pauses here, everybody else goes on."""
    job: SlicedJob | None = getattr(_here, "job", None)
    if job is not None and not job._aborted:
        job.give_turn()
