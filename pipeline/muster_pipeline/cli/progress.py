"""Progress of a Spark run for a person: a bar on a terminal, else one line every ten seconds; on standard error.

While tasks run, Spark tells only how many have ended. Tasks start largest first, so n ended tasks are assumed to be the
n largest; that is exact at the end and close before it. The time left is extrapolated from the share that is done.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from muster_pipeline.cli.exits import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE_EVERY_S: Final = 10.0
LOOK_EVERY_S: Final = 0.5


def eta_s(done: int, total: int, elapsed_s: float) -> float | None:
    """Seconds left at the speed so far; None while nothing is done."""
    if done <= 0 or total <= 0:
        return None
    return max(0.0, elapsed_s * (total - done) / done)


def duration(seconds: float | None) -> str:
    """A duration for people."""
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


class Sizes:
    """How much is done once n tasks have ended."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.tasks = len(sizes)
        self._done = (0, *accumulate(sorted((max(1, size) for size in sizes.values()), reverse=True)))

    def done(self, tasks: int) -> int:
        """The part of `total` that `tasks` ended tasks are assumed to have done."""
        return self._done[min(tasks, self.tasks)]

    @property
    def total(self) -> int:
        """Sum of all sizes; a task counts as 1 at least."""
        return self._done[-1]


def line(what: str, tasks: int, sizes: Sizes, elapsed_s: float) -> str:
    """One line of progress for a log."""
    done, total = sizes.done(tasks), sizes.total
    share = 100 * done // total if total else 100
    left = duration(eta_s(done, total, elapsed_s))
    return f"{what}: {tasks} of {sizes.tasks} log partitions, {share} %, {duration(elapsed_s)} so far, {left} left"


@contextmanager
def shown(what: str, spark: "SparkSession | None", sizes: Mapping[int, int]) -> Iterator[None]:
    """Show progress while the block runs its Spark job."""
    if spark is None:
        yield
        return
    ended, told = threading.Event(), Sizes(sizes)
    seen = Ended(told.tasks)
    show = _bar if sys.stderr.isatty() else _lines

    def look() -> int:
        return seen.of(completed(spark, told.tasks))

    thread = threading.Thread(target=show, args=(what, look, told, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Ended:
    """How many tasks have ended, of a stage that Spark tells of only while it runs."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._has_begun = False

    def of(self, completed: int | None) -> int:
        """By what Spark says now: None before the stage is 0, after it, while tables are published, all."""
        if completed is None:
            return self._tasks if self._has_begun else 0
        self._has_begun = True
        return completed


def completed(spark: "SparkSession", tasks: int) -> int | None:
    """Tasks of the running stage that have ended; None if no such stage runs."""
    tracker: Any = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    return max(
        (stage.numCompletedTasks for stage in stages if stage is not None and stage.numTasks == tasks), default=None
    )


def _lines(what: str, look: Callable[[], int], sizes: Sizes, ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.wait(LINE_EVERY_S):
        say(line(what, look(), sizes, time.monotonic() - began))


def _bar(what: str, look: Callable[[], int], sizes: Sizes, ended: threading.Event) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]} left"),
    )
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=sizes.tasks, left="unknown")
        while not ended.wait(LOOK_EVERY_S):
            tasks = look()
            left = duration(eta_s(sizes.done(tasks), sizes.total, time.monotonic() - began))
            bar.update(task, completed=tasks, left=left)
