"""The cluster as recorded in the controller log: brokers, topics, routing, feature level. Immutable; replaced at apply.

Every replica has a copy (it is a voter of the controller group, or an observer), so Metadata and FindCoordinator need
no request to another replica. `machine.ControllerMachine` owns the transitions (COMMAND entries of Raft group 0,
`commands`). A request takes one image at its start and uses it to its end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from muster_coordinator.ids import BrokerId, GroupNo, MemberNo, broker_of, member_no
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.quota_entities import QuotaEntity
from muster_coordinator.security.scram import ScramCredential

MEMBERS_LEVEL = 3
"""Feature level from which replicas are replaced (ADR 38), and the image has bindings and members."""
STREAM_CONFIGS_LEVEL = 4
"""Feature level from which topics have the configs `redis.*` (ADR 95), and no two of them one stream."""
EMPTY_ID = bytes(16)
EVERY_BROKER = BrokerId(-1)
"""Settings of brokers that hold where one has none of its own."""
PEER_LISTENER = "peer"
"""The endpoint at which peers reach an observer: no configuration of theirs names it. A client's listener cannot have
this name, as those are in capitals."""

UPSTREAM_LISTENER = "upstream/"
"""Before a listener's name: the endpoint at which the ports begin that stand for brokers of an upstream (ADR 96)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Advertised address of one listener of one broker."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered replica. It registers at each start, which clears `draining` (architecture "Drain")."""

    broker: BrokerId
    replica_uuid: bytes
    """16 bytes, chosen when the data folder was created (decision 14). `EMPTY_ID`: the folder before is gone for good,
    and no new one has registered yet."""
    incarnation: int
    """How often a replica has started with that data folder; 0 while there is none."""
    endpoints: tuple[Endpoint, ...]
    admin: str
    """host:port of the admin listener, for 421 answers (decision 37)."""
    draining: bool
    feature_max: int
    """Highest feature level that the broker's binary supports (decision 16)."""
    binding: int = 0
    """How often a folder of this broker was replaced (ADR 38); `member` is made of it."""
    gone: tuple[bytes, ...] = ()
    """uuids of the folders that are gone for good, oldest first: one for each binding that has passed."""
    departing: bool = False
    """It is to be emptied, and then to leave (ADR 47)."""
    rack: str = ""
    """What it shares with brokers that fail together (`broker.rack`); "": it has not said. Always below
    `MEMBERS_LEVEL`."""

    @property
    def bound(self) -> bool:
        """Is a data folder bound to the id? Always below `MEMBERS_LEVEL`."""
        return self.replica_uuid != EMPTY_ID

    @property
    def member(self) -> MemberNo:
        """What the broker is in a Raft group, with its present folder, or with the next one while it has none."""
        return member_no(self.broker, self.binding)


class Move(NamedTuple):
    """Where a partition was moved, or is being moved (ADR 42)."""

    target: tuple[BrokerId, ...]
    """The brokers that are to vote; the first is no more than the first."""
    origin: tuple[BrokerId, ...] = ()
    """The voters before the move, to go back to; none once it is complete."""
    leaving: tuple[BrokerId, ...] = ()
    """Brokers that are not wanted and may still have a replica, ascending. They keep it until the group's log has let
    them go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of a topic: a Raft group and where its replicas are (ADR 42)."""

    group: GroupNo
    members: tuple[MemberNo, ...]
    """The voters at the beginning of the group's log, which never change. Who they are to become is
    `wanted_members`."""
    move: Move | None = None
    """None: it has never been moved."""
    placed: bool = False
    """Its brokers were chosen when it was made (ADR 44). False: they are all that formed the cluster, rotated by the
    partition's index."""
    voters: tuple[BrokerId, ...] = field(init=False, compare=False, repr=False)
    """The brokers that are to vote. A replaced replica keeps its broker's id."""

    def __post_init__(self) -> None:
        began = tuple(map(broker_of, self.members))
        object.__setattr__(self, "voters", began if self.move is None else self.move.target)

    @property
    def preferred(self) -> BrokerId:
        """The broker that takes leadership back when it has caught up (decision 18): the first, as in Kafka, of a
        partition that was placed or moved; of the others `voters[group mod n]`, as earlier releases have it."""
        first = self.placed or self.move is not None
        return self.voters[0 if first else self.group % len(self.voters)]

    @property
    def holders(self) -> tuple[BrokerId, ...]:
        """Those that have a replica, or are to have one: `voters` first, then those that a move has not let go yet."""
        return self.voters if self.move is None else (*self.voters, *self.move.leaving)

    @property
    def moves(self) -> bool:
        return self.move is not None and bool(self.move.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic. A re-created one has another id and other Raft groups; neither is ever reused."""

    name: str
    topic_id: bytes
    """16 bytes, random, never zero, never reused."""
    partitions: tuple[Partition, ...]
    configs: tuple[tuple[str, str], ...]
    """Overrides only, sorted by name."""
    internal: bool
    replication_wanted: int = 0
    """How many replicas each partition is to have, while some are wanted on another number of brokers (ADR 48); 0: as
    many as they have. Always below `MEMBERS_LEVEL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which offsets partition a consumer group belongs to (decision 13). Overrides and epoch are for moving groups,
    which does not exist yet."""

    offsets_partitions: int
    epoch: int = 0
    overrides: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The whole controller state at one applied index."""

    applied: int
    cluster_id: str
    """A uuid in 22 characters of URL-safe base64, like Kafka's."""
    voters: tuple[BrokerId, ...]
    """The brokers that are to vote in the controller's group; at first those that formed the cluster. The others are
    `observers`."""
    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, Topic]
    names_by_id: Mapping[bytes, str]
    deleted_topic_ids: frozenset[bytes]
    """Ids that were topics' and are deleted: the evidence for tombstones of their offsets (decision 27)."""
    routing: Routing
    feature_level: int
    next_group: GroupNo
    next_producer_id: int
    """First id of the next block of `limits.PRODUCER_ID_BLOCK`."""
    unregistered: Mapping[BrokerId, tuple[bytes, ...]] = field(default_factory=dict)
    """Brokers that left (ADR 43), with the uuids of all folders that they had, oldest first: one for each binding that
    has passed. None of these folders registers again. There are none below `MEMBERS_LEVEL`."""
    balancer_paused: bool = False
    """Nothing is moved unless a person asks for it (ADR 47)."""
    former_voters: tuple[BrokerId, ...] = ()
    """Observers that voted in the controller's group before, and may still do, ascending (ADR 45). There are none below
    `MEMBERS_LEVEL`."""
    broker_configs: Mapping[BrokerId, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Settings of brokers that were changed while they run (`broker_configs`), and of `EVERY_BROKER`: each sorted by
    name, never empty. There are none below `MEMBERS_LEVEL`."""
    replication_factor: int = 0
    """Replicas of new topics whose creator leaves that to the cluster (ADR 48); 0: nobody has said so, and
    `default.replication.factor` of whoever creates one holds. Always below `MEMBERS_LEVEL`."""
    controller_voters_wanted: int = 0
    """How many voters the controller's group is to have, while it is another number (ADR 48); 0: as many as it has.
    Always below `MEMBERS_LEVEL`."""
    scram_users: Mapping[str, tuple[ScramCredential, ...]] = field(default_factory=dict)
    """Users that authenticate by SCRAM: at most one credential for each mechanism, in the order of its number, never
    none. There are none below `MEMBERS_LEVEL`."""
    scram_secret: bytes = field(default=b"", repr=False)
    """Of what the salts of users that do not exist are made (`security.scram`); empty until the first user was set."""
    acls: frozenset[Acl] = frozenset()
    """Who may do what (ADR 53). There are none below `MEMBERS_LEVEL`."""
    quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]] = field(default_factory=dict)
    """Client quotas (ADR 54): each sorted by key, never empty. There are none below `MEMBERS_LEVEL`."""


OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
"""Made at first use (ADR 63); a topic of this name that is not internal is a client's, and no transaction log."""


def transaction_log_of(cluster: ClusterImage) -> Topic | None:
    """The transaction log; None: it was never used."""
    topic = cluster.topics.get(TRANSACTIONS_TOPIC)
    return topic if topic is not None and topic.internal else None


def never_registered(broker: BrokerId, replica_uuid: bytes, feature_level: int) -> Broker:
    """A broker of which only its data folder is known, if that: it counts for the cluster's feature level as for one
    that it supports."""
    return Broker(
        broker=broker,
        replica_uuid=replica_uuid,
        incarnation=0,
        endpoints=(),
        admin="",
        draining=False,
        feature_max=feature_level,
    )


def observers(cluster: ClusterImage) -> tuple[BrokerId, ...]:
    """Brokers that follow the controller's log without a vote, as KRaft's observers do, ascending: those that joined
    the formed cluster, unless they were made voters. There are none below `MEMBERS_LEVEL`."""
    return tuple(sorted(broker for broker in cluster.brokers if broker not in cluster.voters))


def all_ids(cluster: ClusterImage) -> frozenset[BrokerId]:
    """Every id that a seat of the cluster record stands for, also those of brokers that left."""
    return frozenset((*cluster.voters, *cluster.brokers, *cluster.unregistered))


def members_of(cluster: ClusterImage, brokers: Iterable[BrokerId]) -> tuple[MemberNo, ...]:
    """The brokers, each as the member that it is with its present binding; one that has never registered has 0."""
    known = cluster.brokers
    return tuple(known[broker].member if broker in known else member_no(broker, 0) for broker in brokers)


def wanted_members(cluster: ClusterImage, partition: Partition) -> tuple[MemberNo, ...]:
    """Who the voters of the partition's Raft group are to be, in the order of its voters. Differs from `members` once
    one of its brokers was replaced; a member without a folder yet is among them. Of the controller's group:
    `members_of(cluster, cluster.voters)`."""
    return members_of(cluster, partition.voters)
