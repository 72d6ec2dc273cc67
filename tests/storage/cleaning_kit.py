"""A round of cleaning by the product's own `CleaningRound`, driven to its end within a call."""

from collections import deque
from functools import partial
from types import SimpleNamespace

from muster_coordinator.errors import Corruption, StorageFailed
from muster_coordinator.replica.maintenance.cleaning_round import CleaningRound, Group
from muster_coordinator.topics.cleaning.batches import LastOfProducer
from muster_coordinator.topics.cleaning.plan import CleaningSettings, cleanable
from muster_coordinator.topics.cleaning.rounds import Round

from tests.storage.log_kit import FOLDER


class AtOnce:
    """A loop without threads and time: what is handed in runs in order."""

    def __init__(self):
        self.todo = deque()

    def monotonic_ms(self):
        return 0

    def call_at(self, _when_ms, call):
        self.todo.append(call)

    def submit(self, _queue, job, done):
        self.todo.append(lambda: done(self._result(job)))

    def submit_paced(self, _queue, steps, done):
        self.todo.append(lambda: done(self._result(partial(self._whole, steps))))

    @staticmethod
    def _result(job):
        try:
            return job()
        except (OSError, Corruption, StorageFailed) as error:
            return error

    @staticmethod
    def _whole(steps):
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value

    def run(self):
        while self.todo:
            self.todo.popleft()()


def clean(
    disk, log, *, now_ms, stable_offset, producers, retention_ms=1_000, memory_bytes=1 << 20, merged_bytes=1_500,
    min_lag_ms=0,
):  # fmt: skip
    """One round over what may be cleaned; its `Outcome`, or None when nothing may."""
    flushed = {summary.base for summary in log.sealed()}
    views = [view for view in log.views() if view.base_offset in flushed]
    plan = cleanable(
        now_ms,
        views,
        CleaningSettings(min_lag_ms=min_lag_ms),
        cleaned_to=log.cleaned.cleaned_to,
        stable_offset=stable_offset,
    )
    if plan is None:
        return None
    round_ = Round(
        now_ms=now_ms,
        delete_retention_ms=retention_ms,
        memory_bytes=memory_bytes,
        first_dirty=plan.first_dirty,
        producers={producer: LastOfProducer(*last) for producer, last in producers.items()},
    )
    loop, ended = AtOnce(), []
    group = Group(1, SimpleNamespace(log=log, folder=FOLDER), lambda: True, lambda: lambda: None)
    CleaningRound(
        loop,
        disk,
        group,
        plan,
        round_,
        segment_bytes=merged_bytes,
        tick_bytes=1 << 30,
        spare_bytes=0,
        done=ended.append,
    ).start()
    loop.run()
    (outcome,) = ended
    if outcome.error is not None:
        raise outcome.error
    return outcome
