"""`muster transactions`, `produce --transactional-id`, `topic alter` and `consume --isolation-level` on one running
cluster with live groups, each beside Kafka's own tool.

A client cannot make a transaction hang here: a partition's leader asks the coordinator first (KIP-890). So the replicas
of this test have that question broken by a mutant of their source, as brokers before Kafka 3.6 never asked. Batches
that name ids of which no coordinator has heard then open transactions that nobody will end.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from muster_coordinator.cli.exits import Exit
from muster_coordinator.records.batch import encode_batch

from tests import kafka_tools
from tests.cli.ran import Ran
from tests.cluster import MusterCluster, wait_until
from tests.integration.second_client import SecondClient

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "held-up"
AN_HOUR_MS = 3_600_000
PATIENCE_S = 45
MUTANT = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.mutants.catalogue import Mutant, Patch
from tests.mutants.loading import install

OLD = "                done(code)\\n\\n        self._ask(question, deadline_ms, answered)\\n"
NEW = OLD.replace("done(code)", "done(Code.NONE)")
install(Mutant("no coordinator is heard", (Patch("replica.transactions.verification", OLD, NEW),)))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    folder = tmp_path_factory.mktemp("hanging")
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(MUTANT)
    cluster = MusterCluster(folder / "cluster", partitions=10, settings={"transaction.state.log.num.partitions": "5"})
    cluster.environment = {**os.environ, "PYTHONPATH": str(folder / "site")}
    with cluster as running:
        yield running


def muster(cluster: MusterCluster, *arguments: str, stdin: str = "") -> Ran:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", *arguments, "-b", cluster.bootstrap]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=90, check=False)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def ours(cluster: MusterCluster, *words: str) -> list[dict[str, Any]]:
    ran = muster(cluster, "transactions", *words, "-o", "json")
    assert ran.code == Exit.OK, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def rows(text: str) -> tuple[list[str], list[list[str]]]:
    """Title and sorted rows of a table; "None" is what Kafka writes for our "-"."""
    title, *lines = [line.split() for line in text.splitlines() if line.strip()]
    return title, sorted([cell.replace("None", "-") for cell in line] for line in lines)


def both(cluster: MusterCluster, *words: str, age: int = 0) -> list[list[str]]:
    """What Kafka's tool says, which is what ours says; `age`: the column that grows, and ours is asked later."""
    theirs = rows(kafka_tools.run(kafka_tools.TRANSACTIONS, "--bootstrap-server", cluster.bootstrap, *words))
    ran = muster(cluster, "transactions", *words)
    assert ran.code == Exit.OK, ran.err
    found = rows(ran.out)
    if age:
        before, after = ([int(row.pop(age - 1)) for row in table] for _, table in (theirs, found))
        assert all(one <= other for one, other in zip(before, after, strict=True)), (before, after)
    assert found == theirs
    return theirs[1]


def produce(cluster: MusterCluster, transactional_id: str, producer_id: int, partition: int) -> int:
    """A record of an hour ago in a transaction of an id of which no coordinator knows; its offset."""
    batch = encode_batch(
        [(None, b"hangs")],
        timestamp_ms=int(time.time() * 1000) - AN_HOUR_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = [{"name": TOPIC, "partition_data": [{"index": partition, "records": bytes(batch)}]}]
    fields = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 10_000, "topic_data": data}
    last: list[Any] = []

    def stored() -> bool:
        for replica in range(3):
            with closing(SecondClient(cluster.client_port(replica))) as client:
                answer = client.ask("Produce", 9, **fields).responses[0].partition_responses[0]
            last[:] = [replica, answer]
            if answer.error_code == 0:
                return True
        return False

    try:
        wait_until("the batch is stored", stored, PATIENCE_S, 0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None
    return int(last[1].base_offset)


def known_to_all(cluster: MusterCluster, topic: str) -> bool:
    """Whether each replica tells its leaders; a member of a group may ask any of them."""
    for replica in range(3):
        with closing(SecondClient(cluster.client_port(replica))) as client:
            (told,) = client.ask("Metadata", 9, topics=[{"name": topic}]).topics
        if told.error_code != 0 or any(one.leader_id < 0 for one in told.partitions):
            return False
    return True


def read(consumer: Consumer, count: int, patience_s: float = PATIENCE_S) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + patience_s
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    return found


def test_what_hangs_is_found_and_aborted_as_by_kafkas_tool(cluster: MusterCluster) -> None:
    assert muster(cluster, "topic", "create", TOPIC, "--partitions", "2").code == Exit.OK
    wait_until("every replica knows the topic", lambda: known_to_all(cluster, TOPIC), PATIENCE_S, 0.2)
    settings = {"transactional.id": "known", "transaction.timeout.ms": 600_000, "linger.ms": 0}
    mine = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    mine.init_transactions(PATIENCE_S)
    member = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "held-up",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    assigned: list[int] = []
    member.subscribe([TOPIC], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    try:
        starts = [produce(cluster, f"nobody-{number}", 900_000 + number, number) for number in (0, 1)]
        assert starts == [0, 0]
        mine.begin_transaction()
        for number in (0, 1):
            mine.produce(TOPIC, value=f"known-{number}".encode(), partition=number, timestamp=1_000)
        mine.commit_transaction(PATIENCE_S)
        mine.begin_transaction()
        mine.produce(TOPIC, value=b"open", partition=0, timestamp=1_000)  # in 1970: as old as one can be, and known
        assert mine.flush(PATIENCE_S) == 0

        assert [row[3] for row in both(cluster, "list") if row[0] == "known"] == ["Ongoing"]
        (told,) = both(cluster, "describe", "--transactional-id", "known", age=8)
        assert told[-1] == f"{TOPIC}-0"
        producers = both(cluster, "describe-producers", "--topic", TOPIC, "--partition", "0")
        assert [row[-1] for row in producers if row[0] == "900000"] == ["0"]
        hanging = both(cluster, "find-hanging", "--topic", TOPIC, age=8)
        assert [(row[1], row[2], row[5]) for row in hanging] == [("0", "900000", "0"), ("1", "900001", "0")]
        (leader,) = {
            row["leader"]
            for row in json.loads(muster(cluster, "topic", "describe", TOPIC, "-o", "json").out)
            if row["partition"] == 1
        }
        assert len(ours(cluster, "find-hanging", "--broker-id", str(leader))) == 2, "it has replicas of both"
        young = ("find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "90")
        assert ours(cluster, *young) == []

        assert read(member, 1, 3) == [], "nothing is stable"
        (live,) = [row for row in ours(cluster, "describe-producers", "--topic", TOPIC, "--partition", "0")
                   if row["current_transaction_start_offset"] not in (None, 0)]  # fmt: skip
        where = ("--topic", TOPIC, "--partition", "0", "--start-offset")
        refused = muster(cluster, "transactions", "abort", *where, str(live["current_transaction_start_offset"]))
        assert (refused.code, "'known'" in refused.err) == (Exit.REFUSED, True), refused.err
        ran = muster(cluster, "transactions", "abort", *where, "0")
        assert ran.code == Exit.OK, ran.err
        kafka_tools.run(
            kafka_tools.TRANSACTIONS,
            *("--bootstrap-server", cluster.bootstrap, "abort"),
            *("--topic", TOPIC, "--partition", "1", "--start-offset", "0"),
        )
        assert both(cluster, "find-hanging", "--topic", TOPIC, age=8) == []
        again = muster(cluster, "transactions", "abort", *where, "0")
        assert again.code == Exit.NOT_FOUND, again.err
        assert sorted(read(member, 2)) == [b"known-0", b"known-1"]
        mine.commit_transaction(PATIENCE_S)
        assert read(member, 1) == [b"open"]
        assert assigned == [2], "the group was not disturbed"
    finally:
        member.close()


def by_kafkas_consumer(cluster: MusterCluster, topic: str, isolation: str, count: int) -> list[str]:
    said = kafka_tools.run(
        kafka_tools.CONSUMER,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning"),
        *("--isolation-level", isolation, "--timeout-ms", "40000", "--max-messages", str(count)),
        fails=True,
    )
    return sorted(line for line in said.splitlines() if line.startswith("v"))


def by_muster(cluster: MusterCluster, topic: str, *words: str) -> list[str]:
    ran = muster(cluster, "consume", topic, "--from-beginning", "--idle", "4", *words)
    assert ran.code == Exit.OK, ran.err
    return sorted(ran.out.split())


def test_records_are_produced_in_transactions_and_what_is_interrupted_is_aborted(cluster: MusterCluster) -> None:
    assert muster(cluster, "topic", "create", "in-transactions", "--partitions", "2").code == Exit.OK
    words = ("produce", "in-transactions", "--transactional-id", "lines")
    whole = [f"v{number}" for number in range(10)]
    ran = muster(cluster, *words, "--transaction-records", "3", stdin="".join(f"{value}\n" for value in whole))
    assert (ran.code, "10 records committed in in-transactions, in 4 transactions" in ran.err) == (Exit.OK, True), (
        ran.err
    )

    def state() -> str:
        """Empty while no coordinator of it is found: it may change between two that are asked."""
        states = [str(one["transaction_state"]) for one in ours(cluster, "list") if one["transactional_id"] == "lines"]
        return states[0] if states else ""

    # Its producer was answered before the markers were written.
    wait_until("the last one is complete", lambda: state() == "CompleteCommit", PATIENCE_S, 0.5)

    command = [sys.executable, "-m", "muster_coordinator.cli.main", *words, "-b", cluster.bootstrap]
    reader, writer = os.pipe()
    with (
        open(reader, "rb") as lines,
        subprocess.Popen(command, stdin=lines, stderr=subprocess.PIPE, text=True) as running,
    ):
        try:
            os.write(writer, b"v-lost-1\nv-lost-2\n")

            wait_until("its transaction is open", lambda: state() == "Ongoing", PATIENCE_S, 0.5)
            running.send_signal(signal.SIGTERM)
            _, said = running.communicate(timeout=PATIENCE_S)  # its input is open still
        finally:
            running.kill()
            os.close(writer)
    assert (running.returncode, "records is aborted" in said) == (Exit.INTERRUPTED, True), said
    committed = by_muster(cluster, "in-transactions", "--isolation-level", "read_committed")
    assert committed == sorted(whole) == by_kafkas_consumer(cluster, "in-transactions", "read_committed", 10)
    everything = by_muster(cluster, "in-transactions")
    assert set(everything) > set(whole), "what was aborted is in the log"
    assert everything == by_kafkas_consumer(cluster, "in-transactions", "read_uncommitted", len(everything))


def test_a_topic_is_altered_under_a_live_group(cluster: MusterCluster) -> None:
    assert muster(cluster, "topic", "create", "grows", "--partitions", "2").code == Exit.OK
    held: set[int] = set()
    settings = {"group.id": "grows", "topic.metadata.refresh.interval.ms": 500, "auto.offset.reset": "earliest"}
    member = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})

    def assigned(_: Consumer, partitions: list[Any]) -> None:
        held.clear()
        held.update(one.partition for one in partitions)

    member.subscribe(["grows"], on_assign=assigned)
    try:

        def holds(count: int) -> bool:
            member.poll(0.2)
            return held == set(range(count))

        wait_until("the member has both", lambda: holds(2), PATIENCE_S)
        words = ("--partitions", "4", "--config", "segment.ms=60000", "--config", "retention.ms=-1")
        ran = muster(cluster, "topic", "alter", "grows", *words)
        assert ran.code == Exit.OK, ran.err
        wait_until("the member has the new ones", lambda: holds(4), PATIENCE_S)
        assert muster(cluster, "produce", "grows", "--partition", "3", stdin="new\n").code == Exit.OK
        assert read(member, 1) == [b"new"]
        at = ("--bootstrap-server", cluster.bootstrap)
        told = kafka_tools.run(kafka_tools.TOPICS, *at, "--describe", "--topic", "grows")
        assert ("PartitionCount: 4" in told, "segment.ms=60000" in told, "retention.ms=-1" in told) == (True,) * 3, told
        entity = ("--entity-type", "topics", "--entity-name", "grows")
        kafka_tools.run(kafka_tools.CONFIGS, *at, "--alter", *entity, "--add-config", "max.message.bytes=2000")
        ran = muster(cluster, "topic", "alter", "grows", "--delete-config", "segment.ms")
        assert ran.code == Exit.OK, ran.err
        told = kafka_tools.run(kafka_tools.CONFIGS, *at, "--describe", *entity)
        assert "max.message.bytes=2000" in told, "what Kafka's tool has set stays"
        assert ("segment.ms" in told, "retention.ms=-1" in told) == (False, True), told
        fewer = kafka_tools.run(kafka_tools.TOPICS, *at, "--alter", "--topic", "grows", "--partitions", "1", fails=True)
        ran = muster(cluster, "topic", "alter", "grows", "--partitions", "1")
        assert ("InvalidPartitions" in fewer, ran.code) == (True, Exit.REFUSED), (fewer, ran.err)
    finally:
        member.close()
