"""A whole run on the driver: log end offsets, tasks, publication. With `spark` None the tasks run in this process."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from muster_pipeline.job import distribute, rounds, samples, stage
from muster_pipeline.job.inputs import BronzeInput, Input
from muster_pipeline.job.live import LiveInput
from muster_pipeline.job.stage import Done, Stage
from muster_pipeline.store.limits import KEPT_MS, ROUND_KEPT_MS
from muster_pipeline.store.place import Place, place
from muster_pipeline.store.publish import Publication, keeping_equal, new_token, publish, targets, writing
from muster_pipeline.store.reader import Root, Snapshot, published
from muster_pipeline.tables.errors import BadInput, NothingPublished, StoreBusy
from muster_pipeline.transforms.settings import FoldSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a run published."""

    snapshot: Snapshot
    records: int
    log_partitions: tuple[int, ...]
    worker_rss_bytes_max: int


def now_ms() -> int:
    """The driver's clock."""
    return time.time_ns() // 1_000_000


def build(
    spark: SparkSession | None,
    source: Input,
    root: Root,
    settings: FoldSettings,
    log_ends: pa.Table | None = None,
    *,
    is_appended: bool = False,
    is_round: bool = False,
    clock_ms: Callable[[], int] = now_ms,
) -> Built:
    """Make every table of every log partition of `source` and publish them together.

    `log_ends` (schema LOG_END_OFFSETS) replaces the published samples, or with `is_appended` is added to them (and old
    ones are thinned out); None keeps them. Log partitions that the source
    lacks stay as published, and so does every other cluster. `is_round`: one of a stream, which is kept for a short
    time, and whose files of unchanged log partitions are those of the round before. Raises TablesError, OSError; the
    tables published before are what readers see then.
    """
    where = root.place if isinstance(root, Snapshot) else place(root)
    with writing(where, settings.cluster):
        begun = begin(source, where, settings, log_ends, is_appended=is_appended, is_round=is_round)
        return complete(begun, _run(spark, begun.task, distribute.ordered(begun.task)), clock_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run of one cluster whose tasks may run now."""

    task: Stage
    before: Snapshot | None
    is_round: bool


def begin(
    source: Input,
    where: Place,
    settings: FoldSettings,
    log_ends: pa.Table | None = None,
    *,
    is_appended: bool = False,
    is_round: bool = False,
) -> Begun:
    """What the tasks of a run share; the caller is `writing`. Raises TablesError, OSError."""
    before = _before(where, settings.cluster)
    _refuse_overtaken(source, before)
    task = Stage(input=source, place=where, settings=settings, token=new_token())
    ends = samples.published_with(task, before, log_ends, is_appended=is_appended, is_round=is_round)
    task = replace(task, log_ends=ends, keeps_state=is_round and isinstance(source, LiveInput))
    return Begun(task=task, before=before, is_round=is_round)


def complete(begun: Begun, done: Sequence[Done], clock_ms: Callable[[], int] = now_ms) -> Built:
    """Publish what the tasks made. Raises TablesError, OSError."""
    task, before = begun.task, begun.before
    where, numbers = task.place, distribute.ordered(task)
    if {one.log_partition for one in done} != set(numbers):
        raise AssertionError(f"{len(numbers)} log partitions have tasks, {len(done)} have results")
    wanted = targets(before, task.tables(), [entry for one in done for entry in one.files], numbers)
    wanted[samples.NAME] = task.log_ends.files
    if begun.is_round:
        wanted = keeping_equal(where, before, wanted)
    run = Publication(
        place=where, cluster=task.settings.cluster, before=before, settings=asdict(task.settings),
        input=dict(task.input.describe()), now_ms=clock_ms(), kept_ms=ROUND_KEPT_MS if begun.is_round else KEPT_MS,
        token=task.token,
    )  # fmt: skip
    return Built(
        snapshot=publish(run, wanted),
        records=sum(one.records for one in done),
        log_partitions=tuple(sorted(numbers)),
        worker_rss_bytes_max=max((one.peak_rss_bytes for one in done), default=0),
    )


def _run(spark: SparkSession | None, task: Stage, numbers: tuple[int, ...]) -> tuple[Done, ...]:
    if not numbers:
        raise BadInput("the input has no log partition")
    if spark is None:
        return tuple(rounds.run(task, number, stage.attempt_name(0)) for number in numbers)
    return distribute.collect(distribute.frame(spark, task, numbers))


def _refuse_overtaken(source: Input, before: Snapshot | None) -> None:
    known = source.known if isinstance(source, BronzeInput | LiveInput) else None
    if known is not None and (before is None or before.number != known.number):
        raise StoreBusy(f"another run of cluster {known.cluster} has published into {known.place} since this one began")


def _before(where: Place, cluster: str) -> Snapshot | None:
    """What is published of the cluster. Raises OldFolder: tables of two kinds in one folder would be a trap."""
    try:
        return published(where, cluster)
    except NothingPublished:
        return None
