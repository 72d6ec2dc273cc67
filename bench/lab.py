"""The running sides, started when a row first needs them, and figures that rows share.

The quick rows share one Muster cluster and one Kafka cluster that run side by side: a JVM needs many runs to reach full
speed, and restarting it for each run would make Kafka look slow. The idle cluster costs a few percent of a core,
equally for both sides; every load row shows how much. Rows with `own` clusters run alone on a quiet machine.
"""

import contextlib
import fcntl
import itertools
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import generator
from bench.compare import AGAIN, BEFORE, DISK, ECHO, KAFKA, KAFKA_FSYNC, MUSTER, UVLOOP
from bench.echo_side import Echo
from bench.errors import BenchError, SideMissing
from bench.histogram import Buckets, merge
from bench.kafka_side import Kafka, KafkaFsync
from bench.muster_side import Muster
from bench.sides import Cluster, Disk, Side

FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "bench"
FAILED = "failed-"
WARMUP_LOADS = (("heartbeat", 32, "6s"), ("commit", 10, "6s"), ("offset-fetch", 4, "3s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The row needs its own clusters: fresh, one side at a time, with nothing else running."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Muster; Kafka runs with its defaults."""
    replicas: int = 3
    """Number of Muster's replicas."""
    partitions: int = 50
    """Partitions of the offsets topic, on both sides."""
    topics: Mapping[str, int] = field(default_factory=lambda: {"bench": 20, "stream": 6})
    """Name -> partitions."""
    tls: bool = False
    """Every server has a listener with TLS besides (`bench.tls`)."""
    redis: bool = False
    """Muster has a Redis server for topics, which keeps nothing (`redis.durability=memory`)."""
    beside_kafka: bool = False
    """Muster's topics are those of three brokers of Kafka (`topics.mode=kafka`)."""
    warm: bool = True
    """Warm up the code paths before the row begins; needs the topic `bench` with ten partitions."""


class Lab:
    """Use as a context manager; it stops what it started."""

    def __init__(self, say: Callable[[str], None], folder: Path = FOLDER) -> None:
        self.say = say
        self.folder = folder
        self._sides: dict[str, Side] = {}
        self._missing: dict[str, str] = {}
        self._number = itertools.count()
        self.kafka_commit_rate: float | None = None
        """Kafka's commits per second in a closed loop, once a row has measured it."""
        self._histograms: dict[str, list[Buckets]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise BenchError("Another benchmark is running in this checkout; wait for its end.") from None
        for side in (MUSTER, AGAIN, BEFORE, KAFKA):
            for left_over in folder.glob(f"{side}-*"):
                shutil.rmtree(left_over)

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._lock.close()

    def close(self) -> None:
        """End every shared side."""
        for side in reversed(self._sides.values()):
            side.stop()
        self._sides.clear()

    def side(self, name: str) -> Side:
        """A shared side, running and warm. Raises SideMissing if this machine cannot run it."""
        if name in self._missing:
            raise SideMissing(self._missing[name])
        if name not in self._sides:
            try:
                self._sides[name] = self._make(name)
            except SideMissing as error:
                self._missing[name] = str(error)
                raise
        return self._sides[name]

    def _make(self, name: str) -> Side:
        if name == KAFKA_FSYNC:
            kafka = self.side(KAFKA)
            assert isinstance(kafka, Kafka)
            return KafkaFsync(kafka)
        if name in (UVLOOP, ECHO):
            echo = Echo(name)
            echo.start()
            return echo
        return Disk() if name == DISK else self._start(name, Own())

    def _start(self, name: str, own: Own) -> Cluster:
        """A cluster with its topics, balanced leaderships and warm code paths."""
        began = time.monotonic()
        folder = self.folder / f"{name}-{next(self._number)}"
        cluster: Cluster
        if name in (MUSTER, AGAIN, BEFORE):
            cluster = Muster(
                folder / "data",
                replicas=own.replicas,
                partitions=own.partitions,
                settings=own.settings,
                tls=own.tls,
                redis=own.redis,
                beside=Kafka(folder / "kafka", partitions=own.partitions) if own.beside_kafka else None,
                name=name,
            )
        else:
            cluster = Kafka(folder, partitions=own.partitions, tls=own.tls)
        try:
            cluster.start()
            cluster.create_topics(own.topics)
            cluster.settle()
            if own.warm:
                for op, depth, window in WARMUP_LOADS:
                    generator.run("load", bootstrap=cluster.bootstrap, op=op, depth=depth, window=window)
        except BaseException:
            cluster.stop()
            raise
        self.say(f"  {name}: up and warm after {time.monotonic() - began:.0f} s")
        return cluster

    @contextlib.contextmanager
    def fresh(self, name: str, own: Own) -> Iterator[Cluster]:
        """A cluster for one row only; the shared ones are stopped first, so that it has the machine for itself."""
        self.close()
        if name in self._missing:
            raise SideMissing(self._missing[name])
        try:
            cluster = self._start(name, own)
        except SideMissing as error:
            self._missing[name] = str(error)
            raise
        try:
            yield cluster
        finally:
            cluster.stop()

    def keep_logs(self, side: Side, row: str) -> Path | None:
        """Copy the logs of a side whose run failed to a folder of the row, in place of those of an earlier one. None if
        there are none."""
        logs = side.logs()
        if not logs:
            return None
        kept = self.folder / f"{FAILED}{row}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        for log in logs:
            shutil.copyfile(log, kept / f"{log.parent.name}-{log.name}")
        return kept

    def load(self, side: Side, op: str, **options: Any) -> dict[str, Any]:
        """One run of the generator; `cpu_us` holds the CPU time of each running side, by its name."""
        sides = {**self._sides, side.name: side}
        if side.name == KAFKA_FSYNC or KAFKA_FSYNC in sides:
            sides.pop(KAFKA if side.name == KAFKA_FSYNC else KAFKA_FSYNC, None)
        cpu = ";".join(f"{name}={','.join(map(str, one.pids()))}" for name, one in sides.items() if one.pids())
        return generator.run("load", bootstrap=side.bootstrap, op=op, echo=side.echoed, cpu=cpu, **options)

    def keep_latencies(self, side: Side, result: dict[str, Any]) -> None:
        """Keep a run's histogram, for percentiles over several runs of the same kind."""
        if result["latency_us"] is not None:
            self._histograms.setdefault(side.name, []).append(result["latency_us"]["buckets"])

    def take_latencies(self) -> dict[str, list[tuple[int, int]]]:
        """Side -> merged histogram of the runs kept since the last call."""
        merged = {side: merge(histograms) for side, histograms in self._histograms.items()}
        self._histograms.clear()
        return merged

    def kafka_rate(self) -> float:
        """Kafka's closed-loop commits per second; measured now if no row has done so. Raises BenchError without
        Kafka."""
        if self.kafka_commit_rate is None:
            self.kafka_commit_rate = float(self.load(self.side(KAFKA), "commit")["rate"])
        if not self.kafka_commit_rate:
            raise BenchError("Kafka answered no commit")
        return self.kafka_commit_rate
