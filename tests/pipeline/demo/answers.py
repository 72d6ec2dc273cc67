"""The same facts from two sides, one value each: what the cluster answers, what the pipeline's tables say.

`asked` is about one moment: the offsets log ends where it did before the questions, and the copied files hold just
that.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from muster_pipeline import store
from muster_pipeline.sources.cluster import EARLIEST, LATEST, Cluster
from muster_pipeline.sources.folder import OFFSETS_TOPIC, list_segments

from tests.cluster import wait_until
from tests.pipeline.demo.life import Life

Place = tuple[str, int]
Names = tuple[str, str | None, str, str]
"""Member id, instance id, client id, host."""
NONE = -1
QUIET_ROUNDS_MAX = 60
ASK_SECONDS_MAX = 60


@dataclass(frozen=True, kw_only=True)
class Facts:
    """About every group. A group that never had a generation (offsets only) has NONE and no members."""

    committed: Mapping[tuple[str, str, int], int]
    generations: Mapping[str, int]
    members: Mapping[str, frozenset[Names]]
    assignments: Mapping[tuple[str, str], frozenset[Place]]
    ends: Mapping[Place, tuple[int, int]]
    """Log start and log end of the topics: what lag is made of."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What was answered when the log ended at `log_ends`, and a copy of its files."""

    by_admin: Facts
    by_kafka: Facts
    log_ends: Mapping[int, int]
    files: Path


def asked(life: Life, folder: Path) -> Moment:
    """Ask until nothing was written between the first question and the last, and no coordinator moved."""
    for _ in range(QUIET_ROUNDS_MAX):
        try:
            found = _asked_once(life, folder)
        except (KafkaException, OSError) as error:
            life.say(f"asking again: {error}")
            continue
        if found is not None:
            return found
    raise AssertionError("the cluster does not become quiet")


def _asked_once(life: Life, folder: Path) -> Moment | None:
    before = log_ends(life)
    sampled = life.sample()
    ends = {(row["topic"], row["partition"]): (row["start_offset"], row["end_offset"]) for row in sampled.to_pylist()}
    admin, kafka = by_admin(life, ends), by_kafka(life)
    if admin is None or kafka is None or not copy(life, folder):
        return None
    if (log_ends(life), by_admin(life, ends), by_kafka(life)) != (before, admin, kafka):
        return None
    return Moment(by_admin=admin, by_kafka=kafka, log_ends=before, files=folder)


def log_ends(life: Life) -> dict[int, int]:
    with Cluster(life.cluster.bootstrap) as cluster:
        return cluster.bound(OFFSETS_TOPIC, cluster.partitions(OFFSETS_TOPIC), LATEST)


def copy(life: Life, folder: Path) -> bool:
    """Files of one replica, once all replicas have the same; whether that came about."""
    replicas = [life.cluster.folder / f"replica-{number}" / "data" for number in range(life.cluster.replicas)]
    try:
        wait_until("the replicas are level", lambda: len({sizes(one) for one in replicas}) == 1, 10, 0.2)
    except AssertionError:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(replicas[0] / "segments", folder)
    return sizes(folder) == sizes(replicas[0])


def sizes(folder: Path) -> tuple[tuple[int, int, int], ...]:
    found = list_segments(str(folder)).values()
    return tuple((one.log_partition, one.base, one.size) for files in found for one in files)


def names(life: Life) -> list[str] | None:
    """None when some coordinator gave no answer: its groups would be missing."""
    told = life.admin.list_consumer_groups().result(ASK_SECONDS_MAX)
    return None if told.errors else sorted(one.group_id for one in told.valid)


def by_admin(life: Life, ends: Mapping[Place, tuple[int, int]]) -> Facts | None:
    """From `/v1/groups/...`; None when a group moves just now."""
    every = names(life)
    if every is None:
        return None
    found = [life.group(name) for name in every]
    groups = [one for one in found if one is not None]
    if len(groups) != len(found):
        return None
    return Facts(
        committed={
            (one["group"], row["topic"], row["partition"]): row["offset"] for one in groups for row in one["offsets"]
        },
        generations={one["group"]: one["generation"] for one in groups},
        members={
            one["group"]: frozenset(
                (row["member"], row["instance"], row["client_id"], row["client_host"]) for row in one["members"]
            )
            for one in groups
        },
        assignments={
            (one["group"], row["member"]): frozenset(
                (part["topic"], number) for part in row["assignment"] or () for number in part["partitions"]
            )
            for one in groups
            for row in one["members"]
        },
        ends=ends,
    )


def by_kafka(life: Life) -> Facts | None:
    """From DescribeGroups, OffsetFetch and ListOffsets; classic groups have no generation there. None when a group
    moves just now."""
    every = names(life)
    if every is None:
        return None
    described = {
        name: future.result(ASK_SECONDS_MAX) for name, future in life.admin.describe_consumer_groups(every).items()
    }
    committed = {}
    for name in every:
        answer = life.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name]
        for one in answer.result(ASK_SECONDS_MAX).topic_partitions:
            committed[name, one.topic, one.partition] = one.offset
    with Cluster(life.cluster.bootstrap) as cluster:
        ends = {
            (topic, number): (start, end)
            for topic in cluster.all_partitions()
            for number, start, end in _ends(cluster, topic)
        }
    return Facts(
        committed=committed,
        generations={},
        members={
            name: frozenset((m.member_id, m.group_instance_id, m.client_id, m.host) for m in one.members)
            for name, one in described.items()
        },
        assignments={
            (name, m.member_id): frozenset((p.topic, p.partition) for p in m.assignment.topic_partitions)
            for name, one in described.items()
            for m in one.members
        },
        ends=ends,
    )


def _ends(cluster: Cluster, topic: str) -> list[tuple[int, int, int]]:
    numbers = cluster.partitions(topic)
    starts, ends = (cluster.bound(topic, numbers, at) for at in (EARLIEST, LATEST))
    return [(number, starts[number], ends[number]) for number in numbers]


def by_tables(root: Path) -> Facts:
    """From published tables: committed offsets and lag from gold, the rest from silver."""
    last: dict[str, dict[str, Any]] = {}
    for row in store.read("generations", root).to_pylist():
        if row["stage"] in ("completed", "empty"):
            last[row["group_id"]] = row
        elif row["stage"] == "deleted":
            last.pop(row["group_id"], None)
    committed = committed_offsets(root)
    groups = {*last, *(group for group, _, _ in committed)}
    members: dict[str, set[Names]] = {name: set() for name in groups}
    assignments: dict[tuple[str, str], set[Place]] = {}
    for row in store.read("memberships", root).to_pylist():
        if _is_last(last, row):
            members[row["group_id"]].add((row["member_id"], row["instance_id"], row["client_id"], row["client_host"]))
            assignments[row["group_id"], row["member_id"]] = set()
    for row in store.read("assignments", root).to_pylist():
        if _is_last(last, row) and row["kind"] == "assigned":
            assignments[row["group_id"], row["member_id"]].add((row["topic"], row["partition"]))
    ends = {}
    for row in store.read("log_end_offsets", root).to_pylist():
        ends[row["topic"], row["partition"]] = (row["start_offset"], row["end_offset"])
    return Facts(
        committed=committed,
        generations={name: last[name]["generation"] if name in last else NONE for name in groups},
        members={name: frozenset(found) for name, found in members.items()},
        assignments={key: frozenset(found) for key, found in assignments.items()},
        ends=ends,
    )


def _is_last(last: Mapping[str, Mapping[str, Any]], row: Mapping[str, Any]) -> bool:
    return row["group_id"] in last and row["log_offset"] == last[row["group_id"]]["log_offset"]


def committed_offsets(root: Path) -> dict[tuple[str, str, int], int]:
    """Silver `commits`, folded here; a tombstone ends a key."""
    found: dict[tuple[str, str, int], int] = {}
    for row in store.read("commits", root).to_pylist():
        key = (row["group_id"], row["topic"], row["partition"])
        if row["outcome"] in ("committed", "txn_committed"):
            found[key] = row["committed_offset"]
        elif row["outcome"] in ("tombstone", "txn_removed"):
            found.pop(key, None)
    return found


def differences(said: Facts, tables: Facts, skip: tuple[str, ...] = ()) -> list[str]:
    """Every group, partition and member that the two sides tell differently."""
    found = []
    for field in fields(Facts):
        if field.name in skip:
            continue
        left, right = getattr(said, field.name), getattr(tables, field.name)
        for key in sorted({*left, *right}, key=repr):
            if left.get(key) != right.get(key):
                found.append(f"{field.name} of {key!r}: the cluster says {left.get(key)}, the tables {right.get(key)}")
    return found
