"""`muster group migrate` between a real Kafka and a cluster of ours beside it: groups of any name there and back, equal
by Kafka's own tools; what is live, elsewhere, of another type, moving or away is told, and the others are done."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli import migrate_groups as command
from muster_coordinator.cli.exits import Exit

from tests import kafka_tools
from tests.cli.ran import Ran
from tests.cluster import MusterCluster, wait_until
from tests.integration.committed_offsets import CommittedOffsets, Offset, Offsets
from tests.kafka_broker import KafkaBroker, free_ports

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.timeout(600)]
PATIENCE_S = 90.0
TOOL_TIMEOUT_S = 300.0
GROUPS = 1_000
NAME_BYTES_MAX = 2**15 - 1
"""Kafka's offsets log has no room for a longer one."""
ODD = (
    " ", "a b", " leading", "trailing ", "it's", '"quoted"', "`$(rm)`", "--execute", "-", "--", "--all", ".*", "a\tb",
    "a\nb", "\x1b[31mred", "Привет", "日本語", "🦕", "\u00e9", "e\u0301", "a/b", "a\\b", "%s%d", "null", "{}", "[0]",
    "n" * 32_000,
)  # fmt: skip
THOUSAND = "|".join([*(re.escape(name) for name in ODD[:-1]), "n{32000}", r"group \d+ 'é'"])
"""All of them, and no group of another test."""
LONGEST = ("n" * NAME_BYTES_MAX, "ü" * (NAME_BYTES_MAX // 2), "m" * (NAME_BYTES_MAX - 1) + " ")
"""A Kafka takes these. Its tool does not get them: ConsumerGroupDescribe says the name in a text of as many bytes."""
TOPIC, PARTITIONS, RECORDS = "parity", 3, 40


class World(NamedTuple):
    kafka: KafkaBroker
    cluster: MusterCluster

    def there(self, *arguments: str) -> Ran:
        """From the Kafka to Muster."""
        return migrate("--from", self.kafka.bootstrap, "-b", self.cluster.bootstrap, *arguments)

    def back(self, *arguments: str) -> Ran:
        return migrate("--from", self.cluster.bootstrap, "-b", self.kafka.bootstrap, *arguments)


def migrate(*arguments: str) -> Ran:
    """A process of its own, as a user has it."""
    words = [sys.executable, "-m", "muster_coordinator.cli.main", "group", "migrate", "-o", "json", *arguments]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert "Traceback" not in ran.stderr, ran.stderr
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def outcomes(ran: Ran) -> dict[str, str]:
    report = json.loads(ran.out)
    told = {row["group"]: row["outcome"] for row in report["groups"]}
    assert report["totals"] == {one: list(told.values()).count(one) for one in set(told.values())}
    return told


def why(ran: Ran, group: str) -> str:
    return next(row["why"] for row in json.loads(ran.out)["groups"] if row["group"] == group)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("migrate")
    with KafkaBroker(folder / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
        fill(kafka.bootstrap, TOPIC, range(RECORDS))
        settings = {"topics.mode": "kafka", "upstream.bootstrap.servers": kafka.bootstrap}
        with MusterCluster(folder / "muster", partitions=8, settings=settings) as cluster:
            made = World(kafka, cluster)
            beside = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            wait_until("the upstream is reached", lambda: TOPIC in beside.list_topics(timeout=5).topics, PATIENCE_S)
            yield made


@pytest.fixture(scope="module")
def at_kafka(world: World) -> Iterator[CommittedOffsets]:
    with CommittedOffsets(world.kafka.port) as offsets:
        yield offsets


@pytest.fixture(scope="module")
def at_muster(world: World) -> Iterator[CommittedOffsets]:
    with CommittedOffsets(world.cluster.client_port(0)) as offsets:
        yield offsets


def fill(bootstrap: str, topic: str, numbers: range, partitions: int = PARTITIONS) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for partition in range(partitions):
        for number in numbers:
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def delete(world: World, *groups: str) -> None:
    """At both sides: Kafka's tool tells nothing of any group while one has an offset of an unknown topic."""
    for bootstrap in (world.kafka.bootstrap, world.cluster.bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for group, deleted in admin.delete_consumer_groups(list(groups)).items():
            try:
                deleted.result(PATIENCE_S)
            except KafkaException as error:
                assert error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND, (group[:50], error)


def described(bootstrap: str, topic: str) -> list[str]:
    """What `kafka-consumer-groups --describe --all-groups` says of the topic's partitions; a name may break a line."""
    tool = kafka_tools.command(kafka_tools.GROUPS, "--bootstrap-server", bootstrap, "--describe", "--all-groups")
    done = subprocess.run(tool, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Error:" not in done.stdout, done.stdout[-2000:]
    return sorted(" ".join(line.split()) for line in done.stdout.splitlines() if f" {topic} " in line)


def offsets_of(number: int, more: int = 0, topic: str = TOPIC) -> Offsets:
    """One to three partitions, with and without metadata and epoch."""
    return {
        (topic, partition): Offset(
            (number + partition) % (RECORDS - 5) + more,
            "" if number % 3 == 0 else f"note {number} é\n" * (number % 7),
            -1 if number % 2 else 0,
        )
        for partition in range(1 + number % PARTITIONS)
    }


def test_a_thousand_groups_of_any_name_there_and_back(
    world: World, at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    names = [*ODD, *(f"group {number} 'é'" for number in range(GROUPS - len(ODD)))]
    topic = "a-thousand"
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_S)
    wanted = {name: offsets_of(number, topic=topic) for number, name in enumerate(names)}
    assert len(wanted) == GROUPS
    for name, offsets in wanted.items():
        at_kafka.set(name, offsets)

    dry = world.there("--pattern", THOUSAND)
    assert (dry.code, outcomes(dry)) == (Exit.OK, dict.fromkeys(sorted(names), "planned")), dry.err
    assert not any(at_muster.read_all(names).values()), "a dry run commits nothing"

    ran = world.there("--pattern", THOUSAND, "--execute")
    assert (ran.code, outcomes(ran)) == (Exit.OK, dict.fromkeys(sorted(names), "done")), ran.err
    assert at_muster.read_all(names) == wanted
    told = described(world.cluster.bootstrap, topic)
    assert told == described(world.kafka.bootstrap, topic)
    assert len(told) == sum(map(len, wanted.values()))
    assert at_kafka.read_all(names) == wanted, "nothing is taken from the source"

    again = world.there("--pattern", THOUSAND, "--execute")
    assert (again.code, set(outcomes(again).values())) == (Exit.OK, {"same"}), again.err

    moved = {name: offsets_of(number, more=5, topic=topic) for number, name in enumerate(names)}
    for name, offsets in moved.items():
        at_muster.set(name, offsets)
    refused = world.back("--pattern", THOUSAND, "--execute")
    assert (refused.code, set(outcomes(refused).values())) == (Exit.REFUSED, {"refused"})
    assert at_kafka.read_all(names) == wanted, "nothing is replaced without --overwrite"

    ran = world.back("--pattern", THOUSAND, "--execute", "--overwrite")
    assert (ran.code, set(outcomes(ran).values())) == (Exit.OK, {"done"}), ran.err
    assert at_kafka.read_all(names) == moved
    assert described(world.kafka.bootstrap, topic) == described(world.cluster.bootstrap, topic)


def test_a_name_like_an_option_and_one_with_control_characters(world: World, at_kafka: CommittedOffsets) -> None:
    for name in ("--x", "-\x1b[2J"):
        at_kafka.set(name, {(TOPIC, 0): Offset(1)})
        ran = world.there("--execute", "--", name)
        assert (ran.code, outcomes(ran)) == (Exit.OK, {name: "done"}), ran.err
    shown = world.there("-o", "table", "--", "-\x1b[2J").out
    assert '"-\\u001b[2J"' in shown
    assert "\x1b" not in shown


def test_the_longest_names_there_and_back(
    world: World, at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    new = "o" * NAME_BYTES_MAX
    for number, name in enumerate(LONGEST):
        at_kafka.set(name, offsets_of(number))
    at_muster.set(new, offsets_of(7))
    try:
        ran = world.there("--execute", "--pattern", r"(n{32767}|ü+|m+ )")
        assert (ran.code, outcomes(ran)) == (Exit.OK, dict.fromkeys(sorted(LONGEST), "done")), ran.err[:500]
        assert at_muster.read_all(LONGEST) == at_kafka.read_all(LONGEST)
        # The Kafka has never heard of this one.
        ran = world.back("--execute", new, *LONGEST)
        assert (ran.code, outcomes(ran)) == (Exit.OK, {new: "done", **dict.fromkeys(LONGEST, "same")}), ran.err[:500]
        assert at_kafka.read(new) == offsets_of(7)
    finally:
        delete(world, new, *LONGEST)


class Member:
    """A librdkafka consumer of the classic protocol that is in the group."""

    def __init__(self, bootstrap: str, group: str, **settings: Any) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, "log_level": 0, **settings,
            }
        )  # fmt: skip
        self.read: list[int] = []

    def __enter__(self) -> "Member":
        self._consumer.subscribe([TOPIC])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def joined(self) -> "Member":
        wait_until("an assignment", lambda: self._poll() or self._consumer.assignment(), PATIENCE_S, every=0)
        return self

    def take(self, count: int) -> list[int]:
        """Read so many records, and commit up to the last one."""
        wait_until(f"{count} records", lambda: self._poll() or len(self.read) >= count, PATIENCE_S, every=0)
        self._consumer.commit(asynchronous=False)
        return self.read

    def _poll(self) -> None:
        message = self._consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            self.read.append(int(value))


def test_a_live_group_is_refused_at_either_side_and_the_others_are_done(
    world: World, at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    names = ["live at kafka", "live at muster", "not live"]
    for name in names:
        at_kafka.set(name, {(TOPIC, 0): Offset(7)})
    with Member(world.kafka.bootstrap, names[0]) as here, Member(world.cluster.bootstrap, names[1]) as there:
        here.joined()
        there.joined()
        ran = world.there("--execute", *names)
    assert (ran.code, outcomes(ran)) == (Exit.REFUSED, dict(zip(names, ("refused", "refused", "done"), strict=True)))
    for name, side in ((names[0], "the source " + world.kafka.bootstrap), (names[1], "the target ")):
        assert why(ran, name).startswith(f"it is live at {side}")
        assert "with 1 members: stop its consumers first" in why(ran, name)
        assert f"group {name} is not migrated: it is live at {side}" in ran.err
    assert not at_muster.read("live at kafka")


def test_what_is_at_the_target_is_replaced_only_where_it_is_asked_for_and_never_taken_away(
    world: World, at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    source = {(TOPIC, 0): Offset(3, "m", 0), (TOPIC, 1): Offset(4)}
    for name, target in {
        "other offset": {(TOPIC, 0): Offset(2, "m", 0)},
        "other metadata": {(TOPIC, 0): Offset(3, "n", 0)},
        "other epoch": {(TOPIC, 0): Offset(3, "m", -1)},
        "one is equal": {(TOPIC, 0): Offset(3, "m", 0), (TOPIC, 2): Offset(9)},
    }.items():
        at_kafka.set(name, source)
        at_muster.set(name, target)
        ran = world.there("--execute", name)
        if name == "one is equal":
            assert (ran.code, outcomes(ran)) == (Exit.OK, {name: "done"}), ran.err
            (row,) = json.loads(ran.out)["groups"]
            assert (row["partitions"], row["copied"], row["only_at_target"]) == (2, 1, 1)
        else:
            assert (ran.code, outcomes(ran)) == (Exit.REFUSED, {name: "refused"})
            assert "1 of 2 offsets differ at the target" in why(ran, name)
            assert at_muster.read(name) == target
            ran = world.there("--execute", "--overwrite", name)
            assert (ran.code, outcomes(ran)) == (Exit.OK, {name: "done"}), ran.err
        assert at_muster.read(name) == {**target, **source}
        assert at_kafka.read(name) == source


def test_a_consumer_goes_on_at_the_other_side_and_back(world: World) -> None:
    topic_records = PARTITIONS * RECORDS
    with Member(world.kafka.bootstrap, "goes on") as member:
        first = member.take(topic_records // 2)
        taken = len(first)
    ran = world.there("--execute", "goes on")
    assert ran.code == Exit.OK, ran.err
    with Member(world.cluster.bootstrap, "goes on") as member:
        rest = member.take(topic_records - taken)
    assert sorted([*first, *rest]) == sorted([*range(RECORDS)] * PARTITIONS), "none is missing, none comes twice"
    ran = world.back("--execute", "--overwrite", "goes on")
    assert ran.code == Exit.OK, ran.err
    fill(world.kafka.bootstrap, TOPIC, range(1_000, 1_002))
    with Member(world.kafka.bootstrap, "goes on") as member:
        assert sorted(member.take(2 * PARTITIONS)) == sorted([1_000, 1_001] * PARTITIONS)


def test_groups_of_other_types_are_refused_in_words(world: World, tmp_path: Path) -> None:
    with Member(world.kafka.bootstrap, "of kip-848", **{"group.protocol": "consumer"}) as member:
        member.take(1)
        ran = world.there("--execute", "of kip-848")
        assert (ran.code, outcomes(ran)) == (Exit.REFUSED, {"of kip-848": "refused"})
        assert "it is live at the source" in why(ran, "of kip-848")
    share = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    arguments = ("--bootstrap-server", world.kafka.bootstrap, "--topic", TOPIC, "--group", "shared")
    with kafka_tools.running(share, *arguments, output=tmp_path / "share.out"):
        wait_until("a share group", lambda: "shared" in outcomes(world.there("--all")), PATIENCE_S, every=1)
    wait_until("its end", lambda: "is live" not in why(world.there("shared"), "shared"), PATIENCE_S, every=1)
    ran = world.there("--execute", "shared", "of kip-848")
    assert (ran.code, set(outcomes(ran).values())) == (Exit.REFUSED, {"refused"})
    assert "it is of the type consumer at the source" in why(ran, "of kip-848")
    assert "it is of the type share at the source" in why(ran, "shared")
    # What was a group of the new protocol becomes a classic one by a classic member.
    with Member(world.kafka.bootstrap, "of kip-848") as classic:
        classic.joined()
    ran = world.there("--execute", "of kip-848")
    assert (ran.code, outcomes(ran)) == (Exit.OK, {"of kip-848": "done"}), ran.err


def test_a_topic_that_is_not_there_is_told_and_the_other_offsets_are_copied(
    world: World, at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    # Offsets that were committed a moment before their topic was deleted stay (docs/clients.md).
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("no-such-topic", 1, 1)])["no-such-topic"].result(PATIENCE_S)
    at_muster.set("half gone", {("no-such-topic", 0): Offset(3), (TOPIC, 0): Offset(4)})
    at_muster.set("all gone", {("no-such-topic", 0): Offset(3)})
    admin.delete_topics(["no-such-topic"])["no-such-topic"].result(PATIENCE_S)
    ran = world.back("--execute", "half gone", "all gone")
    assert (ran.code, outcomes(ran)) == (Exit.REFUSED, {"half gone": "differs", "all gone": "refused"})
    assert "1 of 2 offsets were not taken by the target" in why(ran, "half gone")
    assert "(no-such-topic-0: " in why(ran, "half gone")
    assert at_kafka.read("half gone") == {(TOPIC, 0): Offset(4)}
    delete(world, "half gone", "all gone")


def test_groups_without_offsets(world: World) -> None:
    ran = world.there("--execute", "nobody's group")
    assert (ran.code, outcomes(ran)) == (Exit.NOT_FOUND, {"nobody's group": "nothing"})
    ran = world.there("--execute", "--pattern", "nobody.*")
    assert (ran.code, json.loads(ran.out)) == (Exit.OK, {"groups": [], "totals": {}})


def test_a_pattern_takes_whole_names(world: World, at_kafka: CommittedOffsets) -> None:
    for name in ("pat-1", "pat-22", "xpat-1"):
        at_kafka.set(name, {(TOPIC, 0): Offset(1)})
    assert set(outcomes(world.there("--pattern", r"pat-\d"))) == {"pat-1"}
    assert set(outcomes(world.there("--pattern", r"pat-\d+"))) == {"pat-1", "pat-22"}


@pytest.fixture
def in_between(monkeypatch: pytest.MonkeyPatch, world: World) -> Any:
    """Run the command in this process; `do()` is called behind the commits, before anything is looked at again."""

    def run(capsys: pytest.CaptureFixture[str], group: str, do: Any) -> Ran:
        commit = command.commit_copies

        def then(*arguments: Any) -> Any:
            answered = commit(*arguments)
            do()
            return answered

        monkeypatch.setattr(command, "commit_copies", then)
        options: Mapping[str, Any] = {"execute": True, "output": command.Format.JSON, "timeout": 15.0}
        code = 0
        try:
            command.migrate_groups(world.kafka.bootstrap, [group], bootstrap=world.cluster.bootstrap, **options)
        except command.typer.Exit as ended:
            code = ended.exit_code
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return run


def test_a_group_that_moves_meanwhile_is_told(
    in_between: Any, capsys: pytest.CaptureFixture[str], at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    for name, offsets in (("moves there", at_kafka), ("moves here", at_muster)):
        at_kafka.set(name, {(TOPIC, 0): Offset(3)})
        ran = in_between(capsys, name, lambda o=offsets, n=name: o.set(n, {(TOPIC, 0): Offset(8)}))
        assert (ran.code, outcomes(ran)) == (Exit.REFUSED, {name: "differs"})
        said = "it has moved at the source meanwhile" if offsets is at_kafka else "another client commits there"
        assert said in why(ran, name)


def test_a_side_that_is_away_is_one_sentence(world: World) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    for ends in (("--from", nobody, "-b", world.cluster.bootstrap), ("--from", world.kafka.bootstrap, "-b", nobody)):
        ran = migrate(*ends, "--execute", "--timeout", "2", "--all")
        assert (ran.code, ran.out) == (Exit.UNREACHABLE, "")
        assert ran.err.startswith(f"muster: cannot list brokers: no usable answer from {nobody} within 2 s")


def test_coordinators_that_move_are_asked_again(
    world: World, at_kafka: CommittedOffsets, at_muster: CommittedOffsets
) -> None:
    """A replica is killed just before: its groups' coordinators are not known for a moment."""
    names = [f"moving {number}" for number in range(30)]
    for name in names:
        at_kafka.set(name, {(TOPIC, 0): Offset(3), (TOPIC, 1): Offset(5)})
    world.cluster.kill(1)
    try:
        ran = world.there("--execute", "--timeout", "30", *names)
    finally:
        world.cluster.start_replica(1)
    assert (ran.code, set(outcomes(ran).values())) == (Exit.OK, {"done"}), ran.err
    with CommittedOffsets(world.cluster.client_port(0)) as fresh:
        assert fresh.read_all(names) == at_kafka.read_all(names)
