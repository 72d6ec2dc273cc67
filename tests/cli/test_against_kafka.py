"""The commands against a real Apache Kafka: what they print is what Kafka's own tools would say."""

import gc
import json
import threading
import warnings

import pytest
from muster_coordinator.cli.exits import Exit
from muster_coordinator.cli.group_view import Broker, DescribedGroup, MemberView, PartitionLag, group_lags
from muster_coordinator.cli.kafka_assignors import plugged
from muster_coordinator.cli.kafka_client import KafkaSide
from muster_coordinator.cli.offsets import end_offsets
from muster_coordinator.cli.output import UNKNOWN
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.groups.assignors.registry import ASSIGNORS

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def at(monkeypatch, kafka_bootstrap):
    """Commands find the broker by environment."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", kafka_bootstrap)
    return kafka_bootstrap


def numbers(count: int, keyed: bool = True) -> str:
    return "".join(f"k{i % 7}:v{i}\n" if keyed else f"v{i}\n" for i in range(count))


def test_a_topic_from_creation_to_deletion(muster, at):
    assert muster("topic", "create", "life", "--partitions", "3", "--set", "retention.ms=1000").code == Exit.OK
    again = muster("topic", "create", "life")
    assert (again.code, "already exists" in again.err) == (Exit.REFUSED, True)
    listed = json.loads(muster("topic", "list", "-o", "json").out)
    assert [(t["partitions"], t["replication_factor"]) for t in listed if t["topic"] == "life"] == [(3, 1)]
    assert muster("produce", "life", "--partition", "1", stdin=numbers(5, keyed=False)).code == Exit.OK
    rows = json.loads(muster("topic", "describe", "life", "-o", "json").out)
    assert [(row["partition"], row["leader"], row["start_offset"], row["end_offset"]) for row in rows] == [
        (0, 1, 0, 0),
        (1, 1, 0, 5),
        (2, 1, 0, 0),
    ]
    assert muster("topic", "delete", "life").code == Exit.OK
    gone = muster("topic", "describe", "life")
    assert (gone.code, gone.err) == (Exit.NOT_FOUND, "muster: topic life: no such topic or partition\n")


def test_a_topic_is_altered(muster, at):
    """As on Muster (`test_on_muster`)."""
    assert muster("topic", "create", "altered", "--partitions", "2", "--config", "retention.ms=600000").code == Exit.OK
    ran = muster("topic", "alter", "altered", "--partitions", "4", "--config", "segment.ms=60000")
    assert ran.code == Exit.OK, ran.err
    assert len(json.loads(muster("topic", "describe", "altered", "-o", "json").out)) == 4
    assert muster("topic", "alter", "altered", "--partitions", "1").code == Exit.REFUSED
    wrong = muster("topic", "alter", "altered", "--config", "retention.ms=soon")
    assert (wrong.code, "retention.ms" in wrong.err) == (Exit.REFUSED, True), wrong.err
    assert muster("topic", "alter", "altered", "--delete-config", "segment.ms").code == Exit.OK


def test_what_is_produced_is_consumed_with_its_keys_and_nothing_twice(muster, at):
    muster("topic", "create", "round-trip", "--partitions", "3")
    sent = muster("produce", "round-trip", "--key-separator", ":", stdin=numbers(300))
    assert (sent.code, "300 records acknowledged" in sent.err) == (Exit.OK, True)
    common = ("consume", "round-trip", "--group", "round-trip", "--from-beginning", "-o", "json")
    first = muster(*common, "--max-messages", "120")
    assert "assigned round-trip[0,1,2]" in first.err
    rest = muster(*common, "--idle", "2")
    records = [json.loads(line) for ran in (first, rest) for line in ran.out.splitlines()]
    assert len(first.out.splitlines()) == 120
    assert sorted(int(one["value"][1:]) for one in records) == list(range(300))
    assert all(one["key"] == f"k{int(one['value'][1:]) % 7}" for one in records)


def test_without_a_group_everything_is_read_and_nothing_committed(muster, at):
    muster("topic", "create", "alone", "--partitions", "2")
    muster("produce", "alone", stdin=numbers(10, keyed=False))
    ran = muster("consume", "alone", "--from-beginning", "--max-messages", "10")
    assert sorted(ran.out.split()) == sorted(f"v{i}" for i in range(10))
    listed = json.loads(muster("group", "list", "-o", "json").out)
    assert "alone" not in {row["group"] for row in listed}


def test_a_line_without_key_stops_the_load_and_tells_what_arrived(muster, at):
    muster("topic", "create", "broken-input")
    ran = muster("produce", "broken-input", "--key-separator", ":", stdin="a:1\nb:2\nnonsense\nc:3\n")
    assert ran.code == Exit.USAGE
    assert "line 3 has no key separator" in ran.err
    assert "2 records acknowledged" in ran.err


def test_a_group_seen_from_all_sides(muster, at):
    muster("topic", "create", "sides", "--partitions", "2")
    muster("produce", "sides", "--partition", "0", stdin=numbers(8, keyed=False))
    muster("consume", "sides", "-g", "sides", "--from-beginning", "--max-messages", "5")
    state = json.loads(muster("group", "describe", "sides", "--state", "-o", "json").out)[0]
    assert (state["state"], state["members"], state["coordinator_id"]) == ("Empty", 0, 1)
    assert state["coordinator"] == f"{at} (1)"
    lag = muster("group", "lag", "sides", "-o", "json")
    rows = json.loads(lag.out)
    assert [(r["partition"], r["current_offset"], r["log_end_offset"], r["lag"]) for r in rows] == [
        (0, 5, 8, 3),
        (1, 0, 0, 0),
    ]
    assert muster("group", "lag", "sides").out.splitlines()[0].split() == [
        "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "OWNER",
    ]  # fmt: skip
    assert "has no members" in muster("group", "describe", "sides").err
    assert [r["group"] for r in json.loads(muster("group", "list", "--state", "empty", "-o", "json").out)].count(
        "sides"
    )
    assert muster("group", "lag", "no-such-group").code == Exit.NOT_FOUND


def test_members_are_shown_with_instance_host_and_assignment(muster, at):
    muster("topic", "create", "members", "--partitions", "2")
    with Member(at, "members", "members", instance="i-1", assignor="sticky") as member:
        member.wait_until(lambda: len(member.held()) == 2)  # a broker on a busy machine tells it of the topic later
        row = json.loads(muster("group", "describe", "members", "--members", "--verbose", "-o", "json").out)[0]
        state = json.loads(muster("group", "describe", "members", "--state", "-o", "json").out)[0]
        offsets = json.loads(muster("group", "describe", "members", "-o", "json").out)
        busy = muster("group", "delete", "members")
        reset = muster("group", "reset-offsets", "members", "--topic", "members", "--to-earliest", "--execute")
    assert (row["instance_id"], row["host"], row["client_id"]) == ("i-1", "/127.0.0.1", "member")
    assert (row["assignment"], row["topics"]) == (["members-0", "members-1"], ["members"])
    assert row["consumer_id"].startswith("i-1-")
    assert (state["assignor"], state["state"], state["members"]) == ("sticky", "Stable", 1)
    assert [(one["owner"], one["log_end_offset"]) for one in offsets] == [("i-1", 0), ("i-1", 0)]
    assert (busy.code, "not empty" in busy.err.lower()) == (Exit.REFUSED, True), busy
    assert (reset.code, "stop its consumers first" in reset.err) == (Exit.REFUSED, True)
    # A closed static member stays in the group until its session ends, unless it is removed.
    assert json.loads(muster("group", "describe", "members", "--state", "-o", "json").out)[0]["members"] == 1
    assert muster("group", "remove-member", "members", "--instance-id", "i-1").code == Exit.OK
    assert muster("group", "remove-member", "members", "--instance-id", "i-1").code == Exit.NOT_FOUND
    assert muster("group", "delete", "members").code == Exit.OK
    assert muster("group", "delete", "members").code == Exit.NOT_FOUND


def test_a_partition_without_answer_is_unknown_and_the_others_are_not(muster, at, capsys):
    muster("topic", "create", "known")
    muster("produce", "known", stdin=numbers(4, keyed=False))
    known, gone = TopicPartition("known", 0), TopicPartition("gone", 0)
    with KafkaSide(at, {}, 5.0) as side:
        assert end_offsets(side, [known, gone]) == {known: 4, gone: UNKNOWN}
        assert "offsets of 1 partitions are unknown: gone: no such topic" in capsys.readouterr().err
        member = MemberView("m", None, "c", "/h", (), (gone,))
        view = DescribedGroup("g", "Stable", "consumer", "range", Broker(1, None, None), (member,))
        (lag,) = group_lags(side, view)
    assert (lag.committed, lag.end, lag.lag, lag.owner) == (None, UNKNOWN, None, member)
    assert PartitionLag(gone, 3, UNKNOWN, None).lag is UNKNOWN
    assert PartitionLag(known, 9, 4, None).lag is UNKNOWN, "an offset beyond the end is no negative lag"


def test_reset_is_dry_by_default_and_done_and_read_back_with_execute(muster, at, tmp_path):
    muster("topic", "create", "reset", "--partitions", "2")
    for partition in ("0", "1"):
        produced = muster("produce", "reset", "--partition", partition, stdin=numbers(10, keyed=False))
        assert produced.code == Exit.OK, produced
    consumed = muster("consume", "reset", "-g", "reset", "--from-beginning", "--max-messages", "20")
    assert (consumed.code, len(consumed.out.splitlines())) == (Exit.OK, 20), consumed

    def offsets() -> list[int]:
        return [row["current_offset"] for row in json.loads(muster("group", "lag", "reset", "-o", "json").out)]

    def reset(*arguments: str) -> list[tuple[int, int, int]]:
        ran = muster("group", "reset-offsets", "reset", "-o", "json", *arguments)
        assert ran.code == Exit.OK, ran
        return [(row["new_offset"], row["replayed"], row["skipped"]) for row in json.loads(ran.out)]

    assert reset("--all-topics", "--to-earliest") == [(0, 10, 0), (0, 10, 0)]
    assert offsets() == [10, 10], "a dry run changes nothing"
    assert reset("--topic", "reset:1", "--to-offset", "4", "--execute") == [(4, 6, 0)]
    assert offsets() == [10, 4]
    assert reset("--all-topics", "--shift-by", "-3", "--execute") == [(7, 3, 0), (1, 3, 0)]
    assert reset("--all-topics", "--to-latest", "--execute") == [(10, 0, 3), (10, 0, 9)]
    assert reset("--all-topics", "--by-duration", "PT1H") == [(0, 10, 0), (0, 10, 0)]
    assert reset("--all-topics", "--to-datetime", "2099-01-01") == [(10, 0, 0), (10, 0, 0)]
    exported = muster("group", "reset-offsets", "reset", "--topic", "reset", "--to-offset", "2", "--export").out
    assert exported == "reset,0,2\nreset,1,2\n"
    plan = tmp_path / "plan.csv"
    plan.write_text(exported)
    assert reset("--from-file", str(plan), "--execute") == [(2, 8, 0), (2, 8, 0)]
    assert offsets() == [2, 2]


def test_watching_goes_on_until_interrupted(muster, at, monkeypatch):
    muster("topic", "create", "watched")
    muster("consume", "watched", "-g", "watched", "--idle", "0.5")
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("muster_coordinator.cli.groups.time.sleep", sleep)
    ran = muster("group", "lag", "watched", "--watch", "--interval", "0.5")
    assert (ran.code, ran.out.count("watched: Empty, coordinator")) == (Exit.INTERRUPTED, 3)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_our_assignors_share_a_topic_among_kafka_python_consumers(muster, at, name):
    topic = f"shared-{name}"
    muster("topic", "create", topic, "--partitions", "5")
    with Member(at, topic, topic, assignor=name) as first:
        first.wait_until(lambda: len(first.held()) == 5)
        with Member(at, topic, topic, assignor=name) as second:
            second.wait_until(lambda: sorted((len(first.held()), len(second.held()))) == [2, 3])
            assert not first.held() & second.held()
        first.wait_until(lambda: len(first.held()) == 5)


class Member:
    """A kafka-python consumer with our assignor that polls in a thread until left."""

    def __init__(self, bootstrap: str, topic: str, group: str, *, assignor: str, instance: str | None = None) -> None:
        from kafka import KafkaConsumer

        (strategy,) = plugged([assignor])
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            client_id="member",
            group_instance_id=instance,
            partition_assignment_strategy=[strategy],
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,  # on a busy machine a consumer may close before it has said that it leaves
            auto_offset_reset="earliest",
        )
        strategy.owned = self._consumer.assignment
        self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic])
        self._left = threading.Event()
        self._polled = threading.Condition()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> "Member":
        self._thread.start()
        self.wait_until(lambda: bool(self.held()) or self._consumer._coordinator.stable)
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join(30)
        del self._consumer
        with warnings.catch_warnings():
            # kafka-python forgets the socket of a connection that it is just making when it is closed.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def held(self) -> set[tuple[str, int]]:
        return set(self._consumer.assignment())

    def wait_until(self, holds) -> None:
        with self._polled:
            assert self._polled.wait_for(holds, 30)

    def _poll(self) -> None:
        while not self._left.is_set():
            # kafka-python 3.0 never joins again if this time ends between its join and its sync.
            self._consumer.poll(1_000)
            with self._polled:
                self._polled.notify_all()
        self._consumer.close()
