"""The report under the metric names and labels of kafka-lag-exporter, KMinion and Burrow.

A dashboard or alert that was made for one of them finds its series here, with its labels and its meaning; each name
that is not here is one that the offsets log cannot tell (docs/pipeline.md has the table). What is unknown has no
sample. Partitions are bounded: those furthest behind come first, then those of unknown lag.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, groupby
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from muster_pipeline.report.lag import PartitionLag
from muster_pipeline.report.owners import Owner, Place
from muster_pipeline.report.page import Report
from muster_pipeline.report.peer_names import OTHERS, Peer
from muster_pipeline.report.troubles import ERR, OK, WARN

PARTITIONS_MAX: Final = 10_000

BURROW_STATUS: Final = {
    "OK": 1, "WARN": 2, "EXPIRING": 2, "TRUNCATED": 3, "STOP": 4, "STALL": 5, "REWIND": 6,
}  # fmt: skip
"""Burrow's constants. It knows no EXPIRING and no TRUNCATED: they are its WARN and its ERR, as they are for our groups;
what is UNKNOWN or ABANDONED has no sample."""
BURROW_GROUP: Final = {OK: 1, WARN: 2, ERR: 3}
BEFORE_BURROW: Final = 1
"""The exporter that stood before Burrow counts its statuses from one more."""

KAFKA_STATES: Final = {
    "stable": "Stable", "empty": "Empty", "preparing": "PreparingRebalance", "completing": "CompletingRebalance",
    "assigning": "Assigning", "reconciling": "Reconciling", "not_ready": "NotReady", "simple": "Empty",
}  # fmt: skip
"""As Kafka's ListGroups names them; a group that commits by hand is listed as empty."""

One = tuple[str, PartitionLag]
"""A group and one of its partitions."""


class _Family:
    """Samples of one metric."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.made = GaugeMetricFamily(name, text, labels=labels)

    def add(self, value: float | None, *labels: object) -> None:
        if value is not None:
            self.made.add_metric([str(one) for one in labels], value)


class PeerMetrics(Collector):
    """One report, told once."""

    def __init__(
        self, report: Report, groups: Sequence[str], peers: Collection[Peer], owners: Mapping[Place, Owner]
    ) -> None:
        """`groups`: those that have samples of their own."""
        self._report = report
        self._groups = groups
        self._peers = peers
        self._owners = owners
        self._cluster = report.about.cluster
        every = ((name, one) for name in groups for one in report.lag[name].partitions.values())
        self._partitions: list[One] = nlargest(PARTITIONS_MAX, every, key=_furthest)
        self._ends: dict[tuple[str, int], PartitionLag] = {}
        for one in chain.from_iterable(found.partitions.values() for found in report.lag.values()):
            known = self._ends.get((one.topic, one.partition))
            if one.log_end_offset is not None and (known is None or one.at_ms > known.at_ms):
                self._ends[one.topic, one.partition] = one

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All families, in the order of the peers."""
        told = {Peer.KAFKA_LAG_EXPORTER: self._lag_exporter, Peer.KMINION: self._kminion, Peer.BURROW: self._burrow}
        for peer, families in told.items():
            if peer in self._peers:
                yield from (one.made for one in families())

    def _topics(self) -> Iterator[tuple[str, str, list[PartitionLag]]]:
        """(group, topic, its partitions) of every group."""
        for name in self._groups:
            topics: dict[str, list[PartitionLag]] = {}
            for one in self._report.lag[name].partitions.values():
                topics.setdefault(one.topic, []).append(one)
            for topic, found in topics.items():
                yield name, topic, found

    def _log_ends(self) -> list[PartitionLag]:
        """The newest of each topic partition."""
        return sorted(self._ends.values(), key=lambda one: (one.topic, one.partition))[:PARTITIONS_MAX]

    def _lag_exporter(self) -> list[_Family]:
        where = ("cluster_name", "topic", "partition")
        owned = ("cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id")
        prefix = "kafka_consumergroup_group"
        latest = _Family("kafka_partition_latest_offset", "Log end offset", *where)
        earliest = _Family("kafka_partition_earliest_offset", "Log start offset", *where)
        most = _Family(f"{prefix}_max_lag", "Records behind on the worst partition", *owned[:2])
        late = _Family(f"{prefix}_max_lag_seconds", "Age of the oldest record that is not read", *owned[:2])
        total = _Family(f"{prefix}_sum_lag", "Records behind, over partitions with known lag", *owned[:2])
        by_topic = _Family(f"{prefix}_topic_sum_lag", "The same, of one topic", *owned[:3])
        committed = _Family(f"{prefix}_offset", "Committed offset", *owned)
        lag = _Family(f"{prefix}_lag", "Records behind on one partition", *owned)
        age = _Family(f"{prefix}_lag_seconds", "Age of the oldest record that is not read on one partition", *owned)
        for end in self._log_ends():
            latest.add(end.log_end_offset, self._cluster, end.topic, end.partition)
            earliest.add(end.log_start_offset, self._cluster, end.topic, end.partition)
        for name in self._groups:
            found = list(self._report.lag[name].partitions.values())
            lags, ages = _known(one.lag for one in found), _known(one.time_lag_ms for one in found)
            most.add(max(lags, default=None), self._cluster, name)
            total.add(_sum(lags), self._cluster, name)
            late.add(_seconds(max(ages, default=None)), self._cluster, name)
        for name, topic, found in self._topics():
            by_topic.add(_sum(_known(one.lag for one in found)), self._cluster, name, topic)
        rest = self._report.lag.keys() - set(self._groups)
        if rest:
            total.add(sum(self._report.lag[name].total or 0 for name in rest), self._cluster, OTHERS)
        for name, one in self._partitions:
            owner = self._owners.get((name, one.topic, one.partition))
            who = ("", "", "") if owner is None else (owner.host or "", owner.member_id, owner.client_id or "")
            labels = (self._cluster, name, one.topic, one.partition, *who)
            committed.add(one.committed_offset, *labels)
            lag.add(one.lag, *labels)
            age.add(_seconds(one.time_lag_ms), *labels)
        return [latest, earliest, most, late, total, by_topic, committed, lag, age]

    def _kminion(self) -> list[_Family]:
        prefix, ours = "kminion_kafka_consumer_group", "cluster_name"
        info = _Family(
            f"{prefix}_info", "1: stable", *(ours, "group_id", "coordinator_id", "protocol", "protocol_type", "state")
        )
        members = _Family(f"{prefix}_members", "Members", ours, "group_id")
        idle = _Family(f"{prefix}_empty_members", "Members without a partition", ours, "group_id")
        topic_members = _Family(
            f"{prefix}_topic_members", "Members that own some of it", ours, "group_id", "topic_name"
        )
        assigned = _Family(f"{prefix}_topic_assigned_partitions", "Owned partitions", ours, "group_id", "topic_name")
        offsets = _Family(f"{prefix}_topic_offset_sum", "Sum of committed offsets", ours, "group_id", "topic_name")
        topic_lag = _Family(f"{prefix}_topic_lag", "Records behind", ours, "group_id", "topic_name")
        lag = _Family(f"{prefix}_topic_partition_lag", "The same", ours, "group_id", "topic_name", "partition_id")
        marks = [
            _Family(f"kminion_kafka_topic_partition_{which}_water_mark", text, ours, "topic_name", "partition_id")
            for which, text in (("low", "Log start offset"), ("high", "Log end offset"))
        ]
        sums = [
            _Family(f"kminion_kafka_topic_{which}_water_mark_sum", f"{text}, all partitions", ours, "topic_name")
            for which, text in (("low", "Log start offsets"), ("high", "Log end offsets"))
        ]
        for name in self._groups:
            state = KAFKA_STATES.get(self._report.calendar.states.get(name, ""), "Unknown")
            info.add(float(state == "Stable"), self._cluster, name, "", "", "consumer", state)
            moved, share = self._report.rebalances.groups.get(name), self._report.balance.get(name)
            members.add(moved.members if moved else None, self._cluster, name)
            idle.add(share.now.members_idle if share else None, self._cluster, name)
        who: dict[tuple[str, str], list[str]] = {}
        for (name, topic, _), owner in self._owners.items():
            who.setdefault((name, topic), []).append(owner.member_id)
        for (name, topic), ids in sorted(who.items()):
            topic_members.add(len(set(ids)), self._cluster, name, topic)
            assigned.add(len(ids), self._cluster, name, topic)
        for name, topic, found in self._topics():
            offsets.add(sum(one.committed_offset for one in found), self._cluster, name, topic)
            topic_lag.add(_sum(_known(one.lag for one in found)), self._cluster, name, topic)
        for name, one in self._partitions:
            lag.add(one.lag, self._cluster, name, one.topic, one.partition)
        for end in self._log_ends():
            marks[0].add(end.log_start_offset, self._cluster, end.topic, end.partition)
            marks[1].add(end.log_end_offset, self._cluster, end.topic, end.partition)
        for topic, same in groupby(self._log_ends(), key=lambda one: one.topic):
            ends = list(same)
            sums[0].add(_sum(_known(one.log_start_offset for one in ends)), self._cluster, topic)
            sums[1].add(_sum(_known(one.log_end_offset for one in ends)), self._cluster, topic)
        return [info, members, idle, topic_members, assigned, offsets, topic_lag, lag, *marks, *sums]

    def _burrow(self) -> list[_Family]:
        group, place, end = ("consumer_group",), ("consumer_group", "topic", "partition"), ("topic", "partition")
        totals = _twice("consumer_lag_total", "total_lag", "Records behind", *group)
        states = _twice("consumer_status", "status", "1 OK, 2 WARN, 3 ERR", *group)
        lags = _twice("consumer_partition_lag", "partition_lag", "Records behind", *place)
        offsets = _twice("consumer_current_offset", "partition_current_offset", "Committed offset", *place)
        told = _twice(
            "topic_partition_status", "partition_status", "1 OK, 2 WARN, 3 ERR, 4 STOP, 5 STALL, 6 REWIND", *place
        )
        ends = _twice("topic_partition_offset", "topic_partition_offset", "Log end offset", *end)
        most = _Family("kafka_burrow_partition_max_offset", "Log end offset", "cluster", "group", *end)
        for name in self._groups:
            trouble = self._report.troubles.groups.get(name)
            status = None if trouble is None else BURROW_GROUP.get(trouble.status)
            for at, (total, state) in enumerate(zip(totals, states, strict=True)):
                total.add(self._report.lag[name].total, self._cluster, name)
                state.add(_and(status, at * BEFORE_BURROW), self._cluster, name)
        for name, one in self._partitions:
            labels = (self._cluster, name, one.topic, one.partition)
            trouble = self._report.troubles.groups.get(name)
            word = None if trouble is None else trouble.partitions.get((one.topic, one.partition))
            for at in (0, 1):
                lags[at].add(one.lag, *labels)
                offsets[at].add(one.committed_offset, *labels)
                told[at].add(_and(BURROW_STATUS.get(word or ""), at * BEFORE_BURROW), *labels)
            most.add(one.log_end_offset, *labels)
        for one in self._log_ends():
            for family in ends:
                family.add(one.log_end_offset, self._cluster, one.topic, one.partition)
        return [*chain.from_iterable((totals, states, lags, offsets, told, ends)), most]


def _twice(new: str, old: str, text: str, *labels: str) -> tuple[_Family, _Family]:
    """The same by Burrow's name, and by the name of the exporter that stood before it, whose statuses are one more."""
    older = ("group" if one == "consumer_group" else one for one in labels)
    return (
        _Family(f"burrow_kafka_{new}", text, "cluster", *labels),
        _Family(f"kafka_burrow_{old}", f"{text} (statuses: one more)", "cluster", *older),
    )


def _furthest(one: One) -> tuple[int, str, str, int]:
    return (-1 if one[1].lag is None else one[1].lag, one[0], one[1].topic, one[1].partition)


def _known(values: Iterator[int | None]) -> list[int]:
    return [one for one in values if one is not None]


def _sum(known: list[int]) -> int | None:
    return sum(known) if known else None


def _seconds(value_ms: int | None) -> float | None:
    return None if value_ms is None else value_ms / 1_000


def _and(value: int | None, more: int) -> int | None:
    return None if value is None else value + more
