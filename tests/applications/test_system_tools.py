"""The tools of Kafka's own system tests, as Kafka's tests use them: `kafka-verifiable-producer` and `-consumer` while a
broker is killed, and `TransactionalMessageCopier`, which is killed, bounced and aborts at random.

They tell in JSON what they did. What the producer was acknowledged is stored once, and is what the consumers read,
whose offsets move on. What the copiers wrote, read committed, is their input once.
"""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import kafka_tools, orphans
from tests.applications.clusters import cluster_for
from tests.applications.reading import read_committed
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.applications, pytest.mark.timeout(1_800)]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PARTITIONS, MESSAGES, COPIED = 3, 3_000, 1_200
SETTLES_S_MAX = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    with cluster_for(tmp_path_factory.mktemp("tools") / "data") as found:
        yield found


def create(cluster: MusterCluster, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names], operation_timeout=30).values():
        future.result(40)


def told(output: Path, name: str) -> list[dict[str, Any]]:
    """The events of this name that a tool has printed."""
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [event for event in events if event.get("name") == name]


def test_what_the_verifiable_producer_was_acknowledged_is_stored_once_and_consumed(
    cluster: MusterCluster, tmp_path: Path
) -> None:
    create(cluster, "verified")
    server = ["--bootstrap-server", cluster.bootstrap, "--topic", "verified"]
    produced = tmp_path / "produced.txt"
    consumed = [tmp_path / f"consumed-{number}.txt" for number in range(2)]
    with ExitStack() as stack:
        for output in consumed:
            group = ["--group-id", "verifiers", "--reset-policy", "earliest", "--session-timeout", "30000", "--verbose"]
            stack.enter_context(kafka_tools.running(kafka_tools.VERIFIABLE_CONSUMER, *server, *group, output=output))
        asked = ["--max-messages", str(MESSAGES), "--throughput", "100", "--repeating-keys", "50"]
        producer = stack.enter_context(
            kafka_tools.running(kafka_tools.VERIFIABLE_PRODUCER, *server, *asked, output=produced)
        )

        def acknowledged() -> int:
            return len(told(produced, "producer_send_success"))

        def records() -> list[dict[str, Any]]:
            return [one for output in consumed for one in told(output, "record_data")]

        for victim in range(3):
            share = MESSAGES * (victim + 1) // 5
            wait_until(f"{share} are acknowledged", lambda share=share: acknowledged() >= share, SETTLES_S_MAX, 0.5)
            cluster.kill(victim)
            cluster.start_replica(victim)
        assert producer.wait(SETTLES_S_MAX) == 0
        (sums,) = told(produced, "tool_data")
        assert sums["sent"] == MESSAGES
        failed = {one["value"] for one in told(produced, "producer_send_error")}
        assert sums["acked"] + len(failed) == MESSAGES
        assert len(failed) < MESSAGES / 10, "it repeats nothing by itself, so each kill costs it some"
        log = {(p, o, v.decode()) for p, o, _, v in read_committed(cluster.bootstrap, "verified")}
        wait_until("all is consumed", lambda: len(records()) >= len(log), SETTLES_S_MAX, 1)
    acked = {(one["partition"], one["offset"], one["value"]) for one in told(produced, "producer_send_success")}
    assert acked <= log, "nothing that was acknowledged is lost"
    assert {value for _, _, value in log - acked} <= failed, "and of the rest only what it was not told of"
    assert len({value for _, _, value in log}) == len(log), "nothing was stored twice"
    assert {(one["partition"], one["offset"], one["value"]) for one in records()} == log
    for output in consumed:
        committed_last = told(output, "offsets_committed")[-1:]
        assert all(one["success"] for one in committed_last), output.read_text("utf-8")[-2_000:]


@contextmanager
def copier(
    cluster: MusterCluster, partition: int, life: int, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    output = folder / f"copier-{partition}-{life}.txt"
    command = kafka_tools.command(
        COPIER, "--broker-list", cluster.bootstrap, "--input-topic", "input", "--output-topic", "output",
        "--input-partition", str(partition), "--transactional-id", f"copier-{partition}", "--consumer-group", "copiers",
        "--transaction-size", "25", "--transaction-timeout", "20000", "--enable-random-aborts", "--use-group-metadata",
    )  # fmt: skip
    with output.open("ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    orphans.watch(process.pid)
    try:
        yield process, output
    finally:
        process.kill()
        process.wait()


def test_transactional_message_copiers_copy_each_record_once(cluster: MusterCluster, tmp_path: Path) -> None:
    create(cluster, "input", "output")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(COPIED):
        producer.produce("input", str(number), str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    for life, end in enumerate(("kill", "broker", "peace")):
        copy_for_a_while(cluster, tmp_path, life, end)
    copied = read_committed(cluster.bootstrap, "output")
    assert Counter(value for *_, value in copied) == Counter(str(n).encode() for n in range(COPIED))
    for partition in range(PARTITIONS):
        order = [int(value) for *_, value in copied if int(value) % PARTITIONS == partition]
        by_output = {
            p: [int(v) for q, _, _, v in copied if q == p and int(v) % PARTITIONS == partition]
            for p in range(PARTITIONS)
        }
        assert all(values == sorted(values) for values in by_output.values()), order
    raw = read_committed(cluster.bootstrap, "output", "read_uncommitted")
    assert len(raw) > COPIED, "some transactions were aborted"


def copy_for_a_while(cluster: MusterCluster, folder: Path, life: int, end: str) -> None:
    """Three copiers in one life. `kill`: they are killed in the middle; `broker`: a broker is; `peace`: they end."""
    with ExitStack() as stack:
        running = [stack.enter_context(copier(cluster, partition, life, folder)) for partition in range(PARTITIONS)]
        if end == "kill":
            wait_until("something is copied", lambda: committed(cluster) > COPIED // 8, SETTLES_S_MAX, 0.5)
            for process, _ in running:
                process.kill()
            return
        if end == "broker":
            before = committed(cluster)
            wait_until(
                "more is copied, or all",
                lambda: committed(cluster) > min(before + COPIED // 8, COPIED - 1),
                SETTLES_S_MAX,
                0.5,
            )
            cluster.kill(life)
            cluster.start_replica(life)
        deadline = time.monotonic() + SETTLES_S_MAX
        for process, output in running:
            code = process.wait(max(1, deadline - time.monotonic()))
            assert code == 0, output.read_text("utf-8")[-4_000:]


def committed(cluster: MusterCluster) -> int:
    return len(read_committed(cluster.bootstrap, "output"))
