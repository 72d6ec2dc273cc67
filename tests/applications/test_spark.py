"""Spark Structured Streaming over its own Kafka connector from Maven Central: a source that reads committed, a sink
into a topic and one into files. The application and a broker are killed, and it goes on from its checkpoint.

Files promise exactly once, and the topic at least once: a batch that was under way at a kill may be in it twice, as a
whole, and nothing else. The oracle is what the producer's committed transactions had.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset
import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import java_tools, orphans
from tests.applications.clusters import cluster_for
from tests.applications.reading import read_committed
from tests.cluster import wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(1_800)]

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The newest on Maven Central, which has connectors later than PyPI has PySpark; the project's PySpark runs it."""
PROGRAM = Path(__file__).with_name("programs") / "spark_copy.py"
PARTITIONS, BATCH = 3, 50
"""Records of a transaction; every third one is aborted."""
KILLS = 2
TRIGGER_RECORDS = 400
"""`maxOffsetsPerTrigger` of the program."""
READ_S_MAX = 400


class Feed:
    """Transactions over all partitions; what is committed is remembered."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "spark-feed", "log_level": 0, "linger.ms": 1}
        )
        self._producer.init_transactions(60)
        self._transactions = 0
        self.committed: list[str] = []

    def send(self, transactions: int) -> None:
        for _ in range(transactions):
            aborts = self._transactions % 3 == 2
            first = self._transactions * BATCH
            words = [f"{'gone' if aborts else 'word'}-{number}" for number in range(first, first + BATCH)]
            self._transactions += 1
            self._producer.begin_transaction()
            for number, word in enumerate(words):
                self._producer.produce(
                    "words", word, str(number), partition=number % PARTITIONS, headers={"of": str(self._transactions)}
                )
            if aborts:
                # Else what is aborted may never have left, and there is nothing to skip.
                assert self._producer.flush(60) == 0
                self._producer.abort_transaction(60)
            else:
                self._producer.commit_transaction(60)
                self.committed += words


def missing(class_path: str) -> list[str]:
    """The jars of the class path that PySpark has not in any release: it must not get a second Scala or Hadoop."""
    have = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return [jar for jar in class_path.split(os.pathsep) if _artifact(Path(jar)) not in have]


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d[^/]*$", "", jar.stem)


class Copy:
    """The application; each life goes on from the checkpoint of the one before."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        jars = ",".join(missing(java_tools.classpath(CONNECTOR)))
        self._command = [sys.executable, str(PROGRAM), str(folder), bootstrap, jars, str(TRIGGER_RECORDS)]
        self._log = folder / "spark.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )
        orphans.watch(self._process.pid)

    def kill(self) -> None:
        """Python and its JVM."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def told(self) -> str:
        return self._log.read_text("utf-8")[-8_000:]


@contextmanager
def copy(folder: Path, bootstrap: str) -> Iterator[Copy]:
    one = Copy(folder, bootstrap)
    one.start()
    try:
        yield one
    finally:
        one.kill()


def in_files(folder: Path) -> list[tuple[int, int, str]]:
    """(partition, offset, value) of the files that the sink's log names; others are leftovers of a kill."""
    named: set[str] = set()
    for file in sorted((folder / "rows" / "_spark_metadata").glob("[0-9]*")):
        named |= {json.loads(line)["path"].removeprefix("file://") for line in file.read_text("utf-8").splitlines()[1:]}
    if not named:
        return []
    table = pyarrow.dataset.dataset(sorted(named), format="parquet").to_table(["partition", "offset", "value"])
    return sorted((row["partition"], row["offset"], row["value"]) for row in table.to_pylist())


def test_streams_go_on_from_their_checkpoints(tmp_path: Path) -> None:
    with cluster_for(tmp_path / "data") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(n, PARTITIONS, -1) for n in ("words", "upper")]).values():
            future.result(30)
        feed = Feed(cluster.bootstrap)
        feed.send(12)
        with copy(tmp_path, cluster.bootstrap) as spark:

            def wait_for(what: str, records: int) -> None:
                def read() -> bool:
                    assert spark.runs(), spark.told()
                    upper = {value for _, _, _, value in read_committed(cluster.bootstrap, "upper")}
                    return len(in_files(tmp_path)) >= records and len(upper) >= records

                try:
                    wait_until(what, read, READ_S_MAX, 1)
                except AssertionError as error:
                    raise AssertionError(f"{error}: {len(in_files(tmp_path))} of {records}\n{spark.told()}") from None

            for number in range(KILLS):
                wait_for(f"life {number} has read something", len(feed.committed) // 2)
                feed.send(12)
                spark.kill()
                cluster.kill(number)
                feed.send(12)
                spark.start()
                cluster.start_replica(number)
            feed.send(3)
            wait_for("all is read", len(feed.committed))
        rows = in_files(tmp_path)
        assert Counter(value for _, _, value in rows) == Counter(feed.committed), "each once, nothing that was aborted"
        words = read_committed(cluster.bootstrap, "words")
        assert [(p, o, v.decode()) for p, o, _, v in words] == rows, "where they stand in the topic"
        copied = read_committed(cluster.bootstrap, "upper")
        upper = Counter(value.decode() for _, _, _, value in copied)
        assert set(upper) == {word.upper() for word in feed.committed}
        doubled = sum(count - 1 for count in upper.values())
        assert doubled <= KILLS * TRIGGER_RECORDS, f"{doubled} came twice: more than a batch for each of {KILLS} kills"
        assert_in_order(copied)
        ends = {str(partition): 1 + max(o for p, o, _, _ in words if p == partition) for partition in range(PARTITIONS)}
        for sink in ("topic", "rows"):
            reached = offsets_of(tmp_path / f"checkpoint-{sink}")
            assert reached.keys() == ends.keys()
            assert all(reached[partition] >= end for partition, end in ends.items()), (reached, ends)


def assert_in_order(copied: list[tuple[int, int, bytes, bytes]]) -> None:
    """In each partition of the sink, what stood in one partition of the source first comes in the order of its ids."""
    seen: dict[tuple[int, int], list[int]] = {}
    for partition, _, key, _ in copied:
        found = seen.setdefault((partition, int(key) % PARTITIONS), [])
        if int(key) not in found:
            found.append(int(key))
    assert seen
    for where, ids in seen.items():
        assert ids == sorted(ids), where


def offsets_of(checkpoint: Path) -> dict[str, int]:
    """Where the newest batch that the checkpoint has as done ends, by partition of the source."""
    newest = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    found = json.loads((checkpoint / "offsets" / str(newest)).read_text("utf-8").splitlines()[-1])["words"]
    assert isinstance(found, dict)
    return {str(partition): int(offset) for partition, offset in found.items()}
