"""`ingest`, `stream` and `gold`: make a run of the job from inputs and settings, and print a summary of it."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from muster_pipeline.cli.choices import LIVE
from muster_pipeline.cli.exits import Exit, leave, say
from muster_pipeline.cli.progress import shown
from muster_pipeline.job.build import Built, build
from muster_pipeline.job.inputs import BronzeInput, Input, SegmentInput
from muster_pipeline.job.live import LiveInput
from muster_pipeline.session.spark import check_java, session
from muster_pipeline.sources import log_end_offsets as log_end_source
from muster_pipeline.sources.cluster import Cluster
from muster_pipeline.sources.folder import SegmentFile
from muster_pipeline.store import exclusion, reader
from muster_pipeline.store.limits import ROUND_KEPT_MS
from muster_pipeline.store.place import Place
from muster_pipeline.store.publish import new_token
from muster_pipeline.store.vacuum import vacuum
from muster_pipeline.tables.errors import BadInput, NothingPublished, TablesError
from muster_pipeline.transforms.settings import FoldSettings

OFFSETS_PARTITIONS: Final = 50
"""Kafka's default of offsets.topic.num.partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The settings that `ingest`, `stream` and `gold` share."""

    tables: Place
    settings: FoldSettings
    log_ends: str | None
    """A recorded file, LIVE, or None: lag is then unknown, unless samples were published before."""
    master: str | None
    spark: Mapping[str, str] = field(default_factory=dict)
    bootstrap: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def sampled(self) -> pa.Table | None:
        """Samples of log end offsets for this run. Raises BadOption, ClusterUnreachable."""
        if self.log_ends is None:
            return None
        if self.log_ends != LIVE:
            return log_end_source.recorded(self.log_ends)
        if self.bootstrap is None:
            raise BadInput("--log-end-offsets live needs --bootstrap")
        with Cluster(self.bootstrap, self.properties) as cluster:
            return log_end_source.sample(cluster, self.settings.cluster, None, _now_ms)

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A Spark session, stopped at the end of the block. Raises SparkMissing."""
        quiet = {"spark.log.level": "ERROR", **self.spark}
        if self.master is not None and self.master.startswith("local["):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # one machine: no port is open to others
        say("starting Spark")
        spark = session(self.master, quiet)
        spark.sparkContext.setLogLevel(quiet["spark.log.level"])
        try:
            yield spark
        finally:
            spark.stop()


def ingest(run: Run, source: Input, *, strict: bool) -> None:
    """Read all of `source` into all tables."""
    refuse_unusable(run)
    samples = run.sampled()
    hole = absent(source)
    if hole is not None:
        say(hole)
    check_java()
    with run.session() as spark:
        build_shown(run, spark, source, samples)
    end(run, strict=strict)


def refuse_unusable(run: Run) -> None:
    """Before Spark starts: a folder of release 0.1 (OldFolder), a store that does not answer (StoreFailed) or in which
    two writers would replace each other's tables (NotExclusive)."""
    exclusion.check(run.tables, new_token())
    try:
        reader.published(run.tables, run.settings.cluster)
    except NothingPublished:
        return


def absent(source: Input) -> str | None:
    """A sentence about log partitions that are not in a folder which has others; None if none is known to be absent.

    Their number is not in a folder: up to the largest one there, or to Kafka's default.
    """
    numbers = source.sizes().keys()
    if not isinstance(source, SegmentInput) or not numbers:
        return None
    most = max(OFFSETS_PARTITIONS, max(numbers) + 1)
    missing = [str(number) for number in range(most) if number not in numbers]
    if not missing:
        return None
    shown = ", ".join(missing[:10]) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
    return (
        f"log partitions {shown} of 0 to {most - 1} are not in this folder: their groups are in no table "
        "(a broker has those that it replicates; copy the others' too, unless offsets.topic.num.partitions is smaller)"
    )


def stream(run: Run, bootstrap: str, *, every_s: float, once: bool, strict: bool) -> None:
    """Follow a cluster until SIGTERM or Ctrl-C; each round publishes whole tables."""
    refuse_unusable(run)
    if run.log_ends != LIVE:
        run.sampled()  # before Spark starts: what cannot be read is refused at once
    check_java()
    stop = threading.Event()
    swept_ms = _now_ms()
    with _stopping(stop), run.session() as spark:
        while not stop.is_set():
            began = time.monotonic()
            samples = run.sampled()
            source = LiveInput.onward(
                bootstrap, run.settings.cluster, run.tables, run.properties, every=samples is not None
            )
            for number, (first, behind) in sorted(source.withdrawn.items()):
                say(f"log partition {number} was truncated: published offsets {first} to {behind - 1} are withdrawn")
            if source.ranges:
                build_shown(run, spark, source, samples, is_round=True)
            else:
                say("nothing new")
            if _now_ms() - swept_ms >= ROUND_KEPT_MS:
                swept_ms = _now_ms()
                swept(run.tables, swept_ms)
            if once:
                break
            stop.wait(max(0.0, every_s - (time.monotonic() - began)))
    end(run, strict=strict)


def swept(tables: Place, at_ms: int) -> None:
    """Remove what no run needs; a stream goes on if that cannot be done now."""
    try:
        vacuum(tables, at_ms, new_token())
    except TablesError as error:
        say(f"old files stay for now: {error}")


def build_shown(
    run: Run, spark: SparkSession, source: Input, samples: pa.Table | None, *, is_round: bool = False
) -> None:
    began = time.monotonic()
    with shown("reading", spark, source.sizes()):
        is_appended = is_round and run.log_ends == LIVE
        built = build(spark, source, run.tables, run.settings, samples, is_appended=is_appended, is_round=is_round)
    say(summary(built, time.monotonic() - began))


def summary(built: Built, took_s: float) -> str:
    """One line about a run."""
    rate = built.records / took_s if took_s > 0 else 0.0
    rss = built.worker_rss_bytes_max >> 20
    return (
        f"{built.records:,} records of {len(built.log_partitions)} log partitions in {took_s:.1f} s "
        f"({rate:,.0f} a second), workers at most {rss:,} MiB"
    )


def end(run: Run, *, strict: bool) -> None:
    """Print what is published. Exit code 3 if the run is strict and something is in quarantine."""
    found = reader.published(run.tables, run.settings.cluster)
    rows = {name: sum(entry.rows for entry in found.of(name)) for name in sorted(found.tables)}
    say(
        f"published in {run.tables}, run {found.number}: "
        + ", ".join(f"{name} {count:,}" for name, count in rows.items())
    )
    quarantined = rows.get("quarantine", 0)
    if quarantined:
        text = f"{quarantined:,} rows in quarantine: something could not be decoded or was gone (table quarantine)"
        if strict:
            leave(Exit.QUARANTINE, text)
        say(text)


def gold_input(tables: Place, cluster: str | None) -> tuple[BronzeInput, str]:
    """The published records, and the cluster they are of. Raises NothingPublished."""
    source = BronzeInput.published(tables, cluster)
    return source, source.known.cluster


def plan_rows(source: Input) -> list[dict[str, object]]:
    """What would be read, one row per log partition."""
    if isinstance(source, SegmentInput):
        return [_planned(number, files) for number, files in sorted(source.segments.items())]
    if isinstance(source, LiveInput):
        return [
            {"log_partition": number, "from": start, "to": stop, "offsets": stop - start}
            for number, (start, stop) in sorted(source.ranges.items())
        ]
    return [{"log_partition": number, "bytes": size} for number, size in sorted(source.sizes().items())]


def _planned(number: int, files: Sequence[SegmentFile]) -> dict[str, object]:
    return {"log_partition": number, "files": len(files), "bytes": sum(one.size for one in files)}


def show_plan(source: Input, *, as_json: bool) -> None:
    """The plan on standard output; nothing is read, written or started."""
    rows = plan_rows(source)
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    columns = list(rows[0]) if rows else ["log_partition"]
    totals = {
        name: sum(int(str(row[name])) for row in rows) for name in ("files", "bytes", "offsets") if name in columns
    }
    for row in rows:
        sys.stdout.write("  ".join(f"{name} {row[name]}" for name in columns) + "\n")
    told = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    sys.stdout.write(f"would read {len(rows)} log partitions: {told or 'nothing'}\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the stream after the round that is under way."""

    def asked(number: int, frame: FrameType | None) -> None:
        del number, frame
        say("stopping after this round")
        stop.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
