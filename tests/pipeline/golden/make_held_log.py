"""Makes `held_log.tar.xz`: what three real Kafka brokers wrote of groups of every kind, and what Kafka's tools said.

    python -m tests.pipeline.golden.make_held_log [FILE]

In it: classic, static and KIP-848 groups, also by a regular expression; groups that went from one protocol to another
while their members read, up, down and half of the way; Streams' own protocol and a share group; transactions that
committed, aborted and stayed open; deleted and expired offsets; a log that was compacted; and an unclean election, by
which what one broker alone had acknowledged is gone. The segments are those of each partition's leader.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from muster_coordinator.replica.partitions.surface import partition_of

from tests import java_tools, kafka_tools
from tests.cluster import wait_until
from tests.kafka_broker import KafkaBroker
from tests.pipeline.golden.life import JOIN_SECONDS_MAX, TOPICS, Life
from tests.pipeline.golden.three_brokers import ThreeBrokers

HELD = Path(__file__).with_name("held_log.tar.xz")
OFFSETS, SHARES = "__consumer_offsets", "__share_group_state"
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "log.cleaner.backoff.ms": "300",
    "offsets.retention.check.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
}
OF_A_CLEANED_LOG = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "unclean.leader.election.enable": "true",
}
OF_A_WHOLE_LOG = {"segment.ms": "604800000"}
"""So that all that follows stays in the last segment, which is never cleaned."""
TOOLS = {
    "consumer": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "share": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams": "org.apache.kafka.tools.streams.StreamsGroupCommand",
}
QUESTIONS = {
    "offsets": ("--offsets", "--verbose"),
    "members": ("--members", "--verbose"),
    "state": ("--state", "--verbose"),
}
STREAMS = f"org.apache.kafka:kafka-streams:{java_tools.KAFKA_VERSION}"
COPY = Path(__file__).parent / "java" / "StreamsCopy.java"
CLEANED_S_MAX, CLEANED_RECORDS = 90, 100
LOST, KEPT = 50, 60
"""What group `unclean` committed of `LOST_PARTITION` when one broker alone had it, and of others afterwards."""
LOST_PARTITION = 2


def make(work: Path, target: Path) -> None:
    """`target`: the archive, written whole or not at all."""
    with ThreeBrokers(work / "kafka", SETTINGS) as kafka, ExitStack() as stack:
        life = Life(kafka.bootstrap, modern=True)
        life.begin()
        life.alter("unclean", LOST - 1)
        _configure(life, OF_A_CLEANED_LOG)
        _elect_uncleanly(life, kafka)
        _clean(life, kafka)
        _configure(life, OF_A_WHOLE_LOG)
        life.join(stack)
        _change_protocols(life, stack)
        life.transactions(stack)
        life.simple_groups()
        stack.enter_context(_share(life, work))
        stack.enter_context(_streams(life, work))
        life.settle()
        held = work / "held"
        _say(life, held)
        _copy(life, kafka, held)
    with tarfile.open(work / "held.tar.xz", "w:xz") as archive:
        archive.add(held, ".")
    shutil.move(work / "held.tar.xz", target)


def _configure(life: Life, wanted: Mapping[str, str]) -> None:
    entries = [ConfigEntry(*one, incremental_operation=AlterConfigOpType.SET) for one in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=entries)
    for future in life.admin.incremental_alter_configs([resource]).values():
        future.result(JOIN_SECONDS_MAX)


def _leaders(life: Life, topic: str) -> dict[int, int]:
    return {number: one.leader for number, one in life.admin.list_topics(topic, 20).topics[topic].partitions.items()}


def _replicas_in_sync(life: Life, number: int) -> list[int]:
    return list(life.admin.list_topics(OFFSETS, 20).topics[OFFSETS].partitions[number].isrs)


def _elect_uncleanly(life: Life, kafka: ThreeBrokers) -> None:
    """One broker acknowledges alone, and is away when another one that lacks it has to lead."""
    number = partition_of("unclean", int(SETTINGS["offsets.topic.num.partitions"]))
    leader = _leaders(life, OFFSETS)[number]
    others = [broker for node, broker in kafka.brokers.items() if node != leader]
    for broker in others:
        broker.stop()
    wait_until("it is alone", lambda: _replicas_in_sync(life, number) == [leader], JOIN_SECONDS_MAX, 0.3)
    # Of a key that nobody commits again: cleaning would keep it, if it were not lost.
    assert _commits(life, "unclean", {LOST_PARTITION: LOST})
    kafka.brokers[leader].kill()
    for broker in others:
        broker.start()
    wait_until("another one leads", lambda: _leaders(life, OFFSETS)[number] not in (-1, leader), JOIN_SECONDS_MAX, 0.3)
    wait_until("its group commits", lambda: _commits(life, "unclean", {0: KEPT, 1: KEPT}), JOIN_SECONDS_MAX, 0.5)
    kafka.brokers[leader].start()
    wait_until("all are in sync", lambda: len(_replicas_in_sync(life, number)) == len(kafka.brokers), 60, 0.3)


def _commits(life: Life, group: str, offsets: Mapping[int, int]) -> bool:
    """By a client that knows of no broker before: the others are asked for longer than a coordinator is away."""
    admin = AdminClient({"bootstrap.servers": life.bootstrap, "log_level": 0})
    places = [TopicPartition("flights", number, offset) for number, offset in offsets.items()]
    asked = ConsumerGroupTopicPartitions(group, places)
    try:
        admin.alter_consumer_group_offsets([asked], request_timeout=5)[group].result(JOIN_SECONDS_MAX)
    except KafkaException:
        return False
    return True


def _change_protocols(life: Life, stack: ExitStack) -> None:
    """While the other members go on: up, down, and with both at the end."""
    names, modern = list(TOPICS), {"group.protocol": "consumer"}
    for group, first, then in (("up", {}, modern), ("down", modern, {}), ("mixed", {}, modern)):
        old = life.stays(stack, group, names, **first)
        life.settle()
        life.commit(old, 20)
        new = life.stays(stack, group, names, **then)
        life.settle()
        life.commit(new, 30)
        if group != "mixed":
            _leave(life, old)
            life.settle()
            life.commit(new, 40)


def _leave(life: Life, member: Consumer) -> None:
    life.stay = [one for one in life.stay if one[0] is not member]
    member.close()


@contextmanager
def _share(life: Life, work: Path) -> Iterator[None]:
    share = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    arguments = ("--bootstrap-server", life.bootstrap, "--topic", "flights", "--group", "shares")
    producer = Producer({"bootstrap.servers": life.bootstrap, "log_level": 0})
    with kafka_tools.running(share, *arguments, output=work / "share.out"):

        def has_read() -> bool:
            producer.produce("flights", "more", partition=0)
            producer.flush(10)
            return "more" in (work / "share.out").read_text()

        wait_until("the share group reads", has_read, JOIN_SECONDS_MAX, 0.5)
        yield


@contextmanager
def _streams(life: Life, work: Path) -> Iterator[None]:
    properties = {
        "bootstrap.servers": life.bootstrap,
        "application.id": "streams",
        "group.protocol": "streams",
        "commit.interval.ms": "200",
        "state.dir": str(work / "streams"),
        "auto.offset.reset": "earliest",
    }
    logger = "org.slf4j:slf4j-nop:1.7.36"
    class_path = java_tools.compile_java([COPY], java_tools.classpath(STREAMS, logger))
    command = [java_tools.java_command(), *java_tools.JVM_SMALL, "-Xmx128m", "-cp", class_path, "StreamsCopy"]
    command += ["flights", "copied", *(f"{key}={value}" for key, value in properties.items())]
    with (
        (work / "streams.log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process,
    ):
        try:

            def has_committed() -> bool:
                assert process.poll() is None, (work / "streams.log").read_text()[-2000:]
                return len(_describe(life, "streams", "--offsets").splitlines()) > len(TOPICS)

            wait_until("the Streams group commits", has_committed, JOIN_SECONDS_MAX, 1)
            yield
        finally:
            process.kill()


def _clean(life: Life, kafka: ThreeBrokers) -> None:
    """Commit until each partition of the log was cleaned by its leader."""

    def cleaned() -> bool:
        for turn in range(20):
            for n in range(10):
                life.alter(f"simple-{n}", turn + n)
        return all(_is_cleaned(kafka.brokers[leader], number) for number, leader in _leaders(life, OFFSETS).items())

    wait_until("the log is cleaned", cleaned, CLEANED_S_MAX, 1)


def _is_cleaned(broker: KafkaBroker, number: int) -> bool:
    """Up to where many records of few keys were."""
    path = broker.data / "cleaner-offset-checkpoint"
    lines = [line.rsplit(" ", 2) for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return any((topic, of) == (OFFSETS, str(number)) and int(offset) >= CLEANED_RECORDS for topic, of, offset in lines)


def _describe(life: Life, kind: str, *question: str) -> str:
    return kafka_tools.run(TOOLS[kind], "--bootstrap-server", life.bootstrap, "--describe", "--all-groups", *question)


def _say(life: Life, held: Path) -> None:
    (held / "said").mkdir(parents=True)
    for kind in TOOLS:
        for name, question in QUESTIONS.items():
            (held / "said" / f"{kind}-{name}.txt").write_text(_describe(life, kind, *question))


def _copy(life: Life, kafka: ThreeBrokers, held: Path) -> None:
    names: dict[str, str] = {}
    for broker in kafka.brokers.values():
        for path in broker.data.glob("*/partition.metadata"):
            (topic_id,) = (line[10:] for line in path.read_text().splitlines() if line.startswith("topic_id: "))
            names[topic_id] = path.parent.name.rpartition("-")[0]
    (held / "names.json").write_text(json.dumps(names, indent=1))
    for topic in (OFFSETS, SHARES):
        for number, leader in _leaders(life, topic).items():
            target = held / "log" / f"{topic}-{number}"
            target.mkdir(parents=True)
            for segment in sorted(kafka.brokers[leader].partition_folder(topic, number).glob("*.log")):
                shutil.copy(segment, target)


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HELD
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        make(Path(work), target)
    sys.stdout.write(f"{target}: {target.stat().st_size:,} bytes in {time.monotonic() - began:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
