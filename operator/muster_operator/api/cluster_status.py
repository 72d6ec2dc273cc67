"""`.status` of a CoordinatorCluster: what the operator observed, kept small. Fast-changing numbers (indexes, terms) are
metrics."""

from dataclasses import dataclass
from typing import Any

from muster_operator.api.cluster import LISTENERS_MAX, REPLICAS_MAX
from muster_operator.api.fields import Record, spec_field
from muster_operator.api.schema import Boolean, ListOf, Text
from muster_operator.api.status import CONDITIONS, COUNT, LONG, RESTARTED_AT, TIME, WORD

# ruff: noqa: RUF009  # a field is a call with its shape and text

_ADDRESSES = Text(max_length=20_000)
"""Ten pods, each with a port and an `advertisedHost` in which each placeholder has become longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMember:
    name: str = spec_field(WORD, "Name of the pod.", required=True)
    broker_id: int | None = spec_field(COUNT, "Its broker id. Absent: it did not answer.")
    ready: bool | None = spec_field(Boolean(), "Whether the pod is Ready.")
    drain_phase: str | None = spec_field(WORD, "idle, marking, transferring or drained; Unknown: it did not answer.")
    leaderships: int | None = spec_field(COUNT, "Number of Raft groups that it leads. Absent: it did not answer.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorVolume:
    name: str = spec_field(WORD, "Name of the pod.", required=True)
    uid: str | None = spec_field(WORD, "Its uid when this was read.")
    claim_uid: str | None = spec_field(WORD, "uid of its volume claim.")
    volume: str | None = spec_field(WORD, "Name of the PersistentVolume.")
    folder: str | None = spec_field(WORD, "uuid of the data folder on it.")
    binding: int | None = spec_field(COUNT, "How often the data folder of this coordinator was replaced.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCertificate:
    name: str = spec_field(Text(max_length=253), "Name of the Secret.", required=True)
    not_after: str | None = spec_field(TIME, "When it expires.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScaling:
    leaving: str | None = spec_field(
        Text(max_length=1000), "Pods of the coordinators that are to leave; absent: none is."
    )
    groups_to_move: int | None = spec_field(COUNT, "Replicas of Raft groups that they still hold.")
    bytes_to_move: int | None = spec_field(
        LONG, "Bytes of records of which another copy is to be made. Absent: not known."
    )
    groups_at_first: int | None = spec_field(COUNT, "Replicas of Raft groups that they held when it began.")
    moving: int | None = spec_field(COUNT, "Partitions that are being moved now. Absent: not known.")
    since: str | None = spec_field(TIME, "When it began.")
    seconds_left: int | None = spec_field(
        COUNT, "Estimate until they have left, by how fast it went so far. Absent: nothing was moved yet."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReplication:
    wanted: int | None = spec_field(COUNT, "Replicas that each Raft group is to have.")
    partitions_to_go: int | None = spec_field(COUNT, "Partitions that do not have them yet.")
    bytes_to_move: int | None = spec_field(
        LONG, "Bytes of records of which another copy is to be made. Absent: not known."
    )
    partitions_at_first: int | None = spec_field(COUNT, "Partitions that did not when it began.")
    moving: int | None = spec_field(COUNT, "Partitions that are being moved now.")
    since: str | None = spec_field(TIME, "When it began.")
    seconds_left: int | None = spec_field(
        COUNT, "Estimate until all have them, by how fast it went so far. Absent: nothing was done yet."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRollout:
    pod: str | None = spec_field(WORD, "The pod that is being restarted.")
    uid: str | None = spec_field(WORD, "Its uid.")
    to_revision: str | None = spec_field(WORD, "The wanted revision.")
    since: str | None = spec_field(TIME, "When the roll-out to this revision began.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBootstrap:
    internal: str | None = spec_field(
        _ADDRESSES, "host:port inside the Kubernetes cluster, of the first internal listener."
    )
    external: str | None = spec_field(
        _ADDRESSES, "host:port,... from outside, of the first external listener. Unknown: no node is known."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterListener:
    name: str = spec_field(WORD, "Its name in the spec.", required=True)
    type: str | None = spec_field(WORD, "internal or nodePort.")
    bootstrap_servers: str | None = spec_field(
        _ADDRESSES, "host:port,... where its clients begin. Absent: outside, while the node of no pod is known."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    observed_generation: int | None = spec_field(LONG, "metadata.generation of the spec that this status refers to.")
    conditions: tuple[Any, ...] | None = spec_field(CONDITIONS, "Conditions (docs/operator-conditions.md).")
    replicas: int | None = spec_field(COUNT, "Coordinators that have a pod or are to have one now.")
    founders: int | None = spec_field(
        COUNT, "Coordinators that formed the cluster, those with the lowest numbers: its replication factor."
    )
    replication_factor: int | None = spec_field(
        COUNT, "Replicas that each Raft group has since it was raised. Absent: as many as founders."
    )
    replication: ClusterReplication | None = spec_field(
        Record(ClusterReplication), "More replicas that Raft groups are getting. Absent: none are."
    )
    cluster_id: str | None = spec_field(WORD, "Id that the coordinators gave their cluster.")
    brokers: int | None = spec_field(COUNT, "Coordinators that are registered in the cluster.")
    voters: int | None = spec_field(COUNT, "Coordinators that vote in the controller group.")
    under_replicated: int | None = spec_field(
        COUNT, "Raft groups with a replica that does not answer or is not caught up. Absent: not known."
    )
    scaling: ClusterScaling | None = spec_field(
        Record(ClusterScaling), "Coordinators that are leaving. Absent: none is."
    )
    ready_replicas: int | None = spec_field(COUNT, "Coordinators that are Ready.")
    ready_text: str | None = spec_field(WORD, "readyReplicas/replicas, for kubectl get.")
    version: str | None = spec_field(
        WORD, "Release that the coordinators report; several during a roll-out. The last known one while none answers."
    )
    feature_level: int | None = spec_field(
        COUNT,
        "Finalised feature level: a release that knows a lower one cannot read the cluster's data. It never falls.",
    )
    current_revision: str | None = spec_field(WORD, "Revision of the pods that are not yet replaced.")
    update_revision: str | None = spec_field(WORD, "Wanted revision of every pod.")
    controller_leader: str | None = spec_field(WORD, "Pod that leads the controller group, or Unknown.")
    rollout: ClusterRollout | None = spec_field(Record(ClusterRollout), "The roll-out under way. Absent: none.")
    members: tuple[CoordinatorMember, ...] | None = spec_field(
        ListOf(items=Record(CoordinatorMember), max_items=REPLICAS_MAX, keys=("name",)), "The coordinators, by pod."
    )
    volumes: tuple[CoordinatorVolume, ...] | None = spec_field(
        ListOf(items=Record(CoordinatorVolume), max_items=REPLICAS_MAX, keys=("name",)),
        "Where each coordinator's data was when it last took part: by this a lost volume is told.",
    )
    certificates: tuple[ClusterCertificate, ...] | None = spec_field(
        ListOf(items=Record(ClusterCertificate), max_items=30, keys=("name",)),
        "Certificates in use, and CAs. Absent: there is no TLS.",
    )
    bootstrap_servers: ClusterBootstrap | None = spec_field(
        Record(ClusterBootstrap), "Bootstrap addresses for clients inside and outside of the Kubernetes cluster."
    )
    listeners: tuple[ClusterListener, ...] | None = spec_field(
        ListOf(items=Record(ClusterListener), max_items=LISTENERS_MAX, keys=("name",)), "The listeners, by name."
    )
    restarted_at: str | None = spec_field(
        RESTARTED_AT, "Annotation muster.dev/restarted-at that this status refers to. Absent: no restart was requested."
    )
    selector: str | None = spec_field(Text(max_length=1000), "Label selector of the pods.")
