"""I/O jobs that run in slices: between any two disk operations of a job the rest of the replica goes on.

A job gets a stack of its own (a greenlet), and the world hands the turn over and gets it back, so that a run stays
deterministic. Before each disk operation the job gives the turn back, and the world resumes it after a drawn while.
Threads would do the same, and did: handing the turn over cost them a quarter of a run.
"""

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from tests.sim.disk import PowerLoss


class SlicedJob(greenlet):
    """`step` runs the next slice; True: the job has ended, with `result` or `error`."""

    def __init__(self, job: Callable[[], Any]) -> None:
        super().__init__()
        self.result: Any = None
        self.error: BaseException | None = None
        self._job = job
        self._aborted = False

    def step(self) -> bool:
        """In the world's stack."""
        assert not self.dead, "a job that has ended has no slices"
        self.parent = getcurrent()
        self.switch()
        return self.dead

    def abort(self) -> None:
        """The process is gone: the job ends where it stands."""
        if not self.dead:
            self._aborted = True
            self.step()
            assert self.dead, "a job goes on after its process"

    def run(self) -> None:
        """The job's stack."""
        try:
            self._check()
            self.result = self._job()
        except BaseException as error:  # noqa: BLE001  # handed to the world's stack
            self.error = error

    def _check(self) -> None:
        if self._aborted:
            raise PowerLoss

    def give_turn(self) -> None:
        """In the job's stack."""
        assert self.parent is not None
        self.parent.switch()
        self._check()


def before_disk_operation() -> None:
    """Called by the disk: a sliced job pauses here, everybody else goes on."""
    job = getcurrent()
    if isinstance(job, SlicedJob) and not job._aborted:
        job.give_turn()
