"""One CoordinatorCluster and what surrounds it, as observed in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_operator.api.cluster import ClusterSpec
from muster_operator.world.certificates import CertificatesView
from muster_operator.world.views import OwnerView, StatefulSetView, Unknown
from muster_operator.world.volumes import StorageView


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftGroupView:
    """One Raft group as its leader (or, without `match`, a follower) reports it: `/v1/partitions`."""

    group: int
    """0 is the controller group."""
    topic: str | None
    partition: int | None
    role: str
    term: int
    leader: int | None
    """Broker id; None if this replica knows no leader."""
    voters: tuple[int, ...]
    last_index: int
    commit_index: int
    applied_index: int
    match: Mapping[int, int]
    """Broker id → index known to be on it. On the leader only."""
    log_bytes: int | None = None
    """Size of the partition's records there; None: it has none, or an earlier release, which does not tell."""
    bindings: Mapping[int, int | None] = field(default_factory=dict)
    """Broker id → which of its data folders votes, by `Seat.binding`; None while that changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One broker id, as a replica's image of the cluster has it."""

    folder: str | None
    """uuid of the data folder that is bound to it, in hex; None: the last one is gone for good, and it waits for a new
    one."""
    binding: int
    """How often its data folder was replaced."""
    departing: bool = False
    """It is to hand over what it holds and to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesView:
    """`/v1/balancer` of the controller's leader: what is moved by itself, in its words."""

    moving: int
    """Partitions that are being moved."""
    paused: bool
    stuck: tuple[str, ...]
    """What cannot leave a coordinator that is to leave, and why."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationView:
    """`/v1/replication-factor` of the controller's leader."""

    factor: int
    """Wanted by the coordinators."""
    partitions_to_go: int
    moving: int
    voters: int
    """Of the controller's group now."""
    voters_to_be: int
    done: bool
    """Every group has that many."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """`/v1/status` and `/v1/partitions` of one pod, read in this pass."""

    pod: str
    broker_id: int
    ready: bool
    not_ready: tuple[str, ...]
    cluster_id: str | None
    drain_phase: str
    """idle | marking | transferring | drained"""
    leaderships: int
    groups: tuple[RaftGroupView, ...]
    disk_low: bool = False
    """The replica reports little free space on its volume. Coordinators of earlier releases do not report it."""
    version: str | None = None
    feature_level: int | None = None
    """The cluster's feature level; None before the cluster is formed."""
    folder: str | None = None
    """uuid of the data folder that it runs on, in hex; None: coordinators of earlier releases do not report it."""
    seats: Mapping[int, Seat] = field(default_factory=dict)
    """By broker id, for those that have registered."""
    groups_to_change: int = 0
    """Raft groups led by it that have not taken in a replaced replica's new data folder."""
    voters: tuple[int, ...] = ()
    """Brokers that are to vote in the controller group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWorld:
    owner: OwnerView
    spec: ClusterSpec
    statefulset: StatefulSetView | Unknown | None
    children: Mapping[tuple[str, str], Mapping[str, Any]] | Unknown
    """(kind, name) → live object, for all children that we own or would create."""
    replicas: Mapping[str, ReplicaView | Unknown]
    """By pod name, for every existing pod."""
    node_addresses: Mapping[str, str] | Unknown
    """Node name → address, for external NodePort listeners; {} if there are none."""
    now_ms: int
    storage: Mapping[str, StorageView] = field(default_factory=dict)
    """By pod name: what was read about the storage of the ordinals that had to be looked at (`plan.volume_records`)."""
    moves: MovesView | Unknown | None = None
    """None: not asked for, because nobody is to leave."""
    replication: ReplicationView | Unknown | None = None
    """None: not asked for, because the spec wants no more replicas than there are."""
    certificates: CertificatesView = field(default_factory=CertificatesView)
    must_wait: str | None = None
    """Why a roll-out to the operator's image must not begin now (`plan.pacing`); None: it may."""
