"""What clients do to a cluster, each acknowledged step noted in the oracle: a first life, and more of it at each stage.

Whatever a release stores is in it: groups in every state, with static and dynamic members, simple ones, deleted ones;
commits with the largest metadata and removed ones; topics altered, grown, deleted and created anew; every compression,
idempotent producers, a moved log start. Of releases with feature level 3 also transactions, compacted topics, users,
ACLs and quotas.
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.raw_group import NONE, REBALANCE, RawMember
from tests.releases import compacted, groups, oracle, records, rights, transactions
from tests.releases.oracle import Oracle

REPLICAS = 3
METADATA_CHARACTERS = 4096
EVENTS_BATCHES = 100
BATCH_RECORDS = 10
SIMPLE_GROUPS = 12
LARGE_COMMITS = 100
WITH_TRANSACTIONS = 3
"""Feature level from which on the last three of the list above are served."""
WAIT_S = 30


class Life:
    """One cluster of now, and the oracle of all that was acknowledged by it, by whichever releases."""

    def __init__(self, bootstrap: str, known: Oracle) -> None:
        self.bootstrap, self.known = bootstrap, known
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    # --- topics

    def create(self, name: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        new = NewTopic(name, partitions, replication_factor=REPLICAS, config=configs or {})
        self.admin.create_topics([new], operation_timeout=WAIT_S)[name].result(WAIT_S)
        self._note_topics()
        if configs:
            self.known["configs"].setdefault(name, {}).update(configs)

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=WAIT_S)[name].result(WAIT_S)
        for key in ("configs", "logs"):
            self.known[key].pop(name, None)
        self.known["last_batches"] = [last for last in self.known["last_batches"] if last["topic"] != name]
        self._note_topics()

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(WAIT_S)
        self._note_topics()

    def alter(self, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)
        self.known["configs"].setdefault(name, {})[key] = value

    def _note_topics(self) -> None:
        """Ids are drawn by the cluster; what else is there must be what was acknowledged."""
        told = oracle.topic_ids(self.admin)
        self.known["topics"] = {name: list(told[name]) for name in sorted(told)}

    # --- records

    def produce(self, topic: str, partition: int, batches: int, codec: int) -> None:
        """More of the one producer of a partition."""
        log = self.known["logs"].setdefault(topic, {}).setdefault(str(partition), {"start": 0, "values": []})
        last = self._producer_of(topic, partition)
        for _ in range(batches):
            first = len(log["values"])
            values = [records.value_of(topic, partition, n) for n in range(first, first + BATCH_RECORDS)]
            last.update(sequence=last["sequence"] + len(last["values"]), values=values, codec=codec)
            last["offset"] = records.send(self.bootstrap, topic, partition, last)
            assert last["offset"] == first, (topic, partition, last["offset"], first)
            log["values"] += records.shorts(values)

    def _producer_of(self, topic: str, partition: int) -> records.Last:
        for last in self.known["last_batches"]:
            if (last["topic"], last["partition"]) == (topic, partition):
                return last
        producer = records.new_producer_id(self.bootstrap)
        assert producer not in {last["producer"] for last in self.known["last_batches"]}, "an id was given twice"
        last: records.Last = {"topic": topic, "partition": partition, "producer": producer, "sequence": 0, "values": []}
        self.known["last_batches"].append(last)
        return last

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        told = self.admin.delete_records([TopicPartition(topic, partition, before)])
        assert [future.result(WAIT_S).low_watermark for future in told.values()] == [before]
        self.known["logs"][topic][str(partition)]["start"] = before

    # --- offsets and groups

    def commit(self, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
        groups.commit_simple(self.bootstrap, group, topic, offsets, metadata)
        self._note_offsets(group, topic, offsets, metadata)
        self.note_group(group)

    def _note_offsets(self, group: str, topic: str, offsets: dict[int, int], metadata: str) -> None:
        noted = self.known["offsets"].setdefault(group, {}).setdefault(topic, {})
        noted.update({str(partition): [offset, oracle.kept(metadata)] for partition, offset in offsets.items()})

    def commit_by(self, member: RawMember, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
        assert set(member.commit(topic, offsets, metadata).values()) == {NONE}
        self._note_offsets(member.group, topic, offsets, metadata)

    def run_ahead(self, group: str, topic: str, commits: int) -> None:
        """More than the logs of the small settings keep: who is away needs a snapshot."""
        for n in range(commits):
            groups.commit_simple(self.bootstrap, group, topic, {0: n}, largest(f"{n}"))
        self.commit(group, topic, {0: commits}, "the last of many")

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        groups.delete_offset(self.bootstrap, group, topic, partition)
        del self.known["offsets"][group][topic][str(partition)]
        self.known["no_offsets"].append([group, topic, partition])

    def delete_group(self, group: str) -> None:
        groups.delete_group(self.bootstrap, group)
        for topic, partitions in self.known["offsets"].pop(group, {}).items():
            self.known["no_offsets"] += [[group, topic, int(partition)] for partition in partitions]
        self.known["groups"].pop(group, None)
        self.known["gone_groups"].append(group)

    def note_group(self, group: str) -> None:
        self.known["groups"][group] = groups.describe(self.bootstrap, group)

    def new_group(self, group: str, size: int, *, static: bool = False) -> list[RawMember]:
        members = [groups.new_member(self.bootstrap, group, f"{group}-{n}" if static else None) for n in range(size)]
        groups.form(members)
        return members

    def note_members(self, members: list[RawMember], heartbeat: int) -> None:
        """Their seats, and the group as it is described now; their connections end, their sessions go on."""
        group = members[0].group
        self.known["seats"] = [seat for seat in self.known["seats"] if seat["group"] != group]
        self.known["seats"] += [{**groups.seat_of(member), "heartbeat": heartbeat} for member in members]
        self.note_group(group)
        for member in members:
            member.drop_connection()

    def members(self, group: str) -> list[RawMember]:
        return [groups.member_of(self.bootstrap, seat) for seat in self.known["seats"] if seat["group"] == group]


def largest(tag: str) -> str:
    """As long as metadata may be, in characters of three bytes."""
    return (tag + " ").ljust(METADATA_CHARACTERS, "漢")


def first_life(bootstrap: str, pause: Callable[[], None], level: int) -> Oracle:
    """`pause` is called once before the last of it: it returns when checkpoints were made of what was before. `level`:
    the cluster's feature level."""
    life = Life(bootstrap, oracle.empty())
    _topics(life)
    if level >= WITH_TRANSACTIONS:
        for part in (compacted, rights, transactions):
            part.live(life, 0)
    _groups(life)
    _offsets(life)
    pause()
    life.produce("events", 2, 2, 1)
    for n in range(SIMPLE_GROUPS):
        life.commit(f"simple-{n}", "events", {2: 500 + n}, "the last before the end")
    return life.known


def _topics(life: Life) -> None:
    life.create("events", 3)
    life.create("altered", 1, {"retention.ms": "86400000"})
    life.create("grown", 1)
    life.create("gone", 2)
    life.create("again", 1)
    for partition in range(3):
        for codec in records.CODECS:
            life.produce("events", partition, EVENTS_BATCHES // len(records.CODECS), codec)
    life.produce("altered", 0, 2, 0)
    life.alter("altered", "segment.bytes", "1048576")
    life.alter("altered", "max.message.bytes", "2000000")
    life.produce("altered", 0, 2, 4)
    life.produce("gone", 0, 2, 0)
    life.produce("again", 0, 2, 0)
    life.commit("of-again", "again", {0: 20}, "of the topic before")
    life.delete("gone")
    life.known["gone_topics"].append("gone")
    life.delete("again")
    life.create("again", 1)
    life.known["no_offsets"].append(["of-again", "again", 0])
    del life.known["offsets"]["of-again"], life.known["groups"]["of-again"]
    life.produce("again", 0, 1, 3)
    life.grow("grown", 3)
    life.produce("grown", 2, 1, 2)
    life.delete_records("events", 1, 123)


def _groups(life: Life) -> None:
    static = life.new_group("static", 3, static=True)
    groups.synced(static)
    dynamic = life.new_group("dynamic", 2)
    groups.synced(dynamic)
    for n, member in enumerate((*static, *dynamic)):
        life.commit_by(member, "events", {n % 3: 100 + n}, f"by member {n}")
    life.note_members(static, NONE)
    life.note_members(dynamic, NONE)
    life.note_members(life.new_group("candidate", 2), NONE)
    leaving = life.new_group("leaving", 2)
    groups.synced(leaving)
    gone = leaving.pop(0)
    answer = gone.leave()
    assert int(answer.error_code) == NONE
    gone.drop_connection()
    life.note_members(leaving, REBALANCE)
    empty = life.new_group("empty", 1)
    groups.synced(empty)
    life.commit_by(empty[0], "events", {0: 7, 1: 8}, "before it was empty")
    assert int(empty[0].leave().error_code) == NONE
    empty[0].drop_connection()
    life.note_group("empty")
    life.commit("deleted", "events", {0: 5, 1: 6}, "in vain")
    life.delete_group("deleted")


def _offsets(life: Life) -> None:
    for n in range(SIMPLE_GROUPS):
        group = f"simple-{n}"
        for round_ in range(3):
            offsets = {partition: 10 * round_ + partition for partition in range(3)}
            life.commit(group, "events", offsets, f"round {round_}")
    for n in range(LARGE_COMMITS):
        life.commit(f"large-{n % SIMPLE_GROUPS}", "grown", {2: n}, largest(f"{n}"))
    life.delete_offset("simple-3", "events", 1)
    life.commit("名前 ünï", "again", {0: 2**62}, "é")


def more_life(bootstrap: str, known: Oracle, stage: int) -> None:
    """What is done at each stage after the first life: `stage` counts them from 1."""
    life = Life(bootstrap, known)
    life.create(f"stage-{stage}", 2, {"retention.ms": str(86_400_000 + stage)})
    life.produce(f"stage-{stage}", 1, 2, stage % len(records.CODECS))
    for partition in range(3):
        life.produce("events", partition, 3, (stage + partition) % len(records.CODECS))
    life.alter("altered", "retention.ms", str(86_400_000 + stage))
    life.delete_records("events", 1, 123 + stage)
    for n in range(SIMPLE_GROUPS):
        life.commit(f"simple-{n}", "events", {0: 1000 * stage + n}, f"stage {stage}")
    life.commit(f"stage-{stage}", "events", {0: stage}, largest(f"stage {stage}"))
    life.commit(f"deleted-{stage}", "events", {0: stage})
    life.delete_group(f"deleted-{stage}")
    for n, member in enumerate((*life.members("static"), *life.members("dynamic"))):
        life.commit_by(member, "events", {n % 3: 1000 * stage + n}, f"by member {n} at stage {stage}")
        member.drop_connection()
    if "transactions" in known:
        for part in (compacted, rights, transactions):
            part.live(life, stage)
    _go_on_with_groups(life, stage)


def _go_on_with_groups(life: Life, stage: int) -> None:
    """The rebalances that were under way end; a new one is left at each stage."""
    under_way = "candidate" if stage == 1 else f"candidate-{stage - 1}"
    candidates = life.members(under_way)
    groups.synced(candidates)
    life.note_members(candidates, NONE)
    leaving = life.members("leaving" if stage == 1 else f"leaving-{stage - 1}")
    before = leaving[0].generation
    groups.form(leaving)
    assert leaving[0].generation > before
    groups.synced(leaving)
    life.note_members(leaving, NONE)
    life.note_members(life.new_group(f"candidate-{stage}", 2, static=True), NONE)
    rest: list[Any] = life.new_group(f"leaving-{stage}", 3)
    groups.synced(rest)
    gone = rest.pop()
    assert int(gone.leave().error_code) == NONE
    gone.drop_connection()
    life.note_members(rest, REBALANCE)
