"""`.status` of a ConsumerGroup: the coordinator's view of the group. What is not known is absent or `Unknown`, never
0."""

from dataclasses import dataclass
from typing import Any

from muster_operator.api.fields import Record, spec_field
from muster_operator.api.schema import ListOf, Text
from muster_operator.api.status import CONDITIONS, COUNT, LONG, RESTARTED_AT, SENTENCE, TIME, WORD

# ruff: noqa: RUF009  # a field is a call with its shape and text

MEMBERS_MAX = 100
"""Members listed in a status; `memberCount` counts all."""
SELECTOR_CHARS_MAX = 10_000
"""A longer selector, which only a workload in `workloadRef` may have, is left out."""
DEPARTING_MAX = 1000
"""Pods that may leave at once: the maximum of `spec.replicas`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str = spec_field(Text(max_length=1000), "Member id.", required=True)
    instance_id: str | None = spec_field(Text(max_length=1000), "group.instance.id. Absent: a dynamic member.")
    pod: str | None = spec_field(WORD, "The member's pod, if known.")
    client_id: str | None = spec_field(Text(max_length=1000), "client.id.")
    host: str | None = spec_field(Text(max_length=1000), "Address that it connects from.")
    partitions: tuple[str, ...] | None = spec_field(
        ListOf(items=Text(max_length=10_000), max_items=1000), "Its assigned partitions, as topic:0-3,7."
    )
    lag: int | None = spec_field(LONG, "Lag in records, over its partitions. Absent: unknown.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartingPod:
    pod: str = spec_field(WORD, "Name of the pod.", required=True)
    uid: str = spec_field(WORD, "Its uid.", required=True)
    member_id: str | None = spec_field(
        Text(max_length=1000),
        "Member that was seen in the pod and will be removed. Absent: none was seen, and none is removed.",
    )
    host: str | None = spec_field(Text(max_length=1000), "Address of the pod from which the member was connected.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitions:
    total: int | None = spec_field(COUNT, "Partitions of the topics.")
    assigned: int | None = spec_field(COUNT, "Partitions that are assigned to a member.")
    committed: int | None = spec_field(COUNT, "Partitions with a committed offset.")
    uncommitted: int | None = spec_field(COUNT, "Partitions without a committed offset: they are not part of the lag.")
    unknown: int | None = spec_field(
        COUNT, "Partitions whose log end offset, or number of records, is unknown: then lag is Unknown."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    time: str | None = spec_field(TIME, "When the generation changed, or when the operator noticed.")
    cause: str | None = spec_field(WORD, "Why, as far as known: docs/operator-conditions.md.")
    message: str | None = spec_field(SENTENCE, "The same as a sentence.")
    generation: int | None = spec_field(LONG, "Generation that it led to.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBootstrap:
    internal: str | None = spec_field(Text(max_length=20_000), "host:port,... that the consumers get.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    observed_generation: int | None = spec_field(LONG, "metadata.generation of the spec that this status refers to.")
    conditions: tuple[Any, ...] | None = spec_field(CONDITIONS, "Conditions (docs/operator-conditions.md).")
    state: str | None = spec_field(
        WORD, "State of the group in Kafka's words, or Unknown. Empty also if the group does not exist yet: see Ready."
    )
    generation: int | None = spec_field(LONG, "Generation of the group. Absent: the cluster does not report it.")
    coordinator: str | None = spec_field(WORD, "Broker that coordinates the group, or Unknown.")
    protocol: str | None = spec_field(WORD, "Assignor that the members agreed on.")
    protocol_type: str | None = spec_field(WORD, "Protocol type: consumer.")
    member_count: int | None = spec_field(COUNT, "Members of the group. Absent: unknown.")
    members: tuple[GroupMember, ...] | None = spec_field(
        ListOf(items=Record(GroupMember), max_items=MEMBERS_MAX, keys=("memberId",)), "The first 100 members."
    )
    partitions: GroupPartitions | None = spec_field(Record(GroupPartitions), "Numbers of partitions of the topics.")
    lag: int | None = spec_field(LONG, "Lag in records, over all partitions. Absent: unknown.")
    lag_text: str | None = spec_field(WORD, "lag for kubectl get: a number, ~ and an estimate, or Unknown.")
    lag_quality: str | None = spec_field(
        WORD, "How good `lag` is: exact; estimated, which only a topic in Redis can be; or unknown."
    )
    lag_time: str | None = spec_field(
        TIME,
        "When `lag` was read. It is written with any other change, or once it has been in another band (0, then powers "
        "of four) for a minute; the operator's metrics have the lag of every pass.",
    )
    last_rebalance: Rebalance | None = spec_field(Record(Rebalance), "The last rebalance and its cause.")
    replicas: int | None = spec_field(COUNT, "Consumer pods that exist.")
    ready_replicas: int | None = spec_field(COUNT, "Consumer pods that are Ready.")
    ready_text: str | None = spec_field(WORD, "readyReplicas/wanted, for kubectl get; - when only observing.")
    departing: tuple[DepartingPod, ...] | None = spec_field(
        ListOf(items=Record(DepartingPod), max_items=DEPARTING_MAX, keys=("pod",)),
        "Leaving pods, recorded before they are stopped: the operator removes only members recorded here.",
    )
    restarted_at: str | None = spec_field(
        RESTARTED_AT, "Annotation muster.dev/restarted-at that this status refers to. Absent: no restart was requested."
    )
    selector: str | None = spec_field(
        Text(max_length=SELECTOR_CHARS_MAX), "Label selector of the pods, for the scale subresource."
    )
    bootstrap_servers: GroupBootstrap | None = spec_field(
        Record(GroupBootstrap), "Bootstrap addresses of the group's cluster."
    )
