"""Commands of the controller log and their results: a frozen dataclass per command; `codec` gives the versioned bytes.

The proposer chooses random and clock values (ids, timestamps) and puts them into the command, so that apply is a
function. A command that is no longer valid at apply (its name was taken meanwhile) changes nothing, and its result
says why.
"""

from dataclasses import dataclass, field

from muster_coordinator.controller.image import Endpoint
from muster_coordinator.ids import BrokerId
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.quota_entities import QuotaEntity


@dataclass(frozen=True, slots=True, kw_only=True)
class FormCluster:
    """First command of a cluster, from the formed record (decision 15): voters, number of offsets partitions, the
    offsets topic's id."""

    cluster_id: str
    voters: tuple[BrokerId, ...]
    offsets_partitions: int
    offsets_topic_id: bytes
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    broker: BrokerId
    replica_uuid: bytes
    incarnation: int
    endpoints: tuple[Endpoint, ...]
    admin: str
    feature_max: int
    rack: str = ""
    """Not empty from `image.MEMBERS_LEVEL` on only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceReplica:
    """The broker's data folder is gone for good; the next one that registers is bound to its id (ADR 38). Written from
    `image.MEMBERS_LEVEL` on only."""

    broker: BrokerId
    gone_uuid: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """The broker leaves the cluster, and its data folder never registers again (ADR 43). Written from
    `image.MEMBERS_LEVEL` on only."""

    broker: BrokerId
    replica_uuid: bytes
    """Of the folder that is bound to it, as the proposer saw it; `image.EMPTY_ID`: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecommissionBroker:
    """The broker is to be emptied, and then to leave; or it is to stay after all (ADR 47). Written from
    `image.MEMBERS_LEVEL` on only."""

    broker: BrokerId
    replica_uuid: bytes
    """Of the folder that is bound to it, as the proposer saw it; `image.EMPTY_ID`: none."""
    departing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBalancer:
    """Nothing is moved by itself any more, or again (ADR 47). Written from `image.MEMBERS_LEVEL` on only."""

    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSeat:
    """A broker's seat after a recovery, where that differs from the image."""

    broker: BrokerId
    gone: tuple[bytes, ...]
    """uuids of folders that are gone for good from now on, oldest first: one for each binding that passes. All zero for
    one that nobody knows any more."""
    bound: bytes
    """uuid of the folder that is bound to it; `image.EMPTY_ID`: none, it waits for a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverCluster:
    """The cluster goes on from one folder, since a majority of the others was lost for good (ADR 40). Never proposed:
    `muster recover` writes it into the log of a stopped replica, from `image.MEMBERS_LEVEL` on only."""

    seats: tuple[RecoveredSeat, ...]
    next_group: int
    """Raft groups that are made from now on have at least this number: what lies below may be in the folder."""
    next_producer_id: int
    """Producer ids that are given from now on are at least this: the lost replicas may have given ids below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDraining:
    broker: BrokerId
    draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    name: str
    topic_id: bytes
    partitions: int
    configs: tuple[tuple[str, str], ...]
    placed: tuple[tuple[BrokerId, ...], ...] = ()
    """The brokers of each partition, the preferred leader first (ADR 44). Always below `image.MEMBERS_LEVEL`: none, and
    each partition is on all brokers that formed the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    topic_id: bytes
    total: int
    placed: tuple[tuple[BrokerId, ...], ...] = ()
    """As of `CreateTopic`, of the partitions that are added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePartition:
    """These brokers are to be the partition's voters (ADR 42). Empty: those from before the move that is under way.
    Written from `image.MEMBERS_LEVEL` on only."""

    topic_id: bytes
    partition: int
    voters: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteMove:
    """The group's log has these voters and no other members: a move to them is complete."""

    topic_id: bytes
    partition: int
    voters: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelMove:
    """The move to these voters ends, and those from before it are wanted again (ADR 46). Refused if others are
    wanted by now. Written from `image.MEMBERS_LEVEL` on only."""

    topic_id: bytes
    partition: int
    voters: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetControllerVoters:
    """These brokers are to vote in the controller's group (ADR 45). Written from `image.MEMBERS_LEVEL` on only."""

    voters: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteControllerVoters:
    """The controller's group has these voters and no others: a change to them is complete."""

    voters: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfigs:
    """The complete new set of overrides, computed from an image with the overrides `expected`; refused if these have
    changed since."""

    topic_id: bytes
    expected: tuple[tuple[str, str], ...]
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterBrokerConfigs:
    """As `AlterTopicConfigs`, of a broker, or of all (`image.EVERY_BROKER`). Written from `image.MEMBERS_LEVEL` on
    only."""

    broker: BrokerId
    expected: tuple[tuple[str, str], ...]
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReplicationFactor:
    """Every Raft group is to have this many replicas, and every new topic (ADR 48). Written from `image.MEMBERS_LEVEL`
    on only."""

    factor: int
    topics: tuple[bytes, ...] = ()
    """Ids of the only topics that are concerned; none: all, as `replication` says, and the controller's group."""
    every_topic: bool = False
    """Also take replicas from topics that have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    broker: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeFeatures:
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScramCredential:
    """A user's password for one mechanism, as it is kept (`security.scram`). Its text never shows the keys."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScramCredential:
    """The user has this password from now on. Written from `image.MEMBERS_LEVEL` on only, as are those below."""

    credential: NewScramCredential
    secret: bytes = field(repr=False)
    """Random: the cluster's own, if it has none yet (`ClusterImage.scram_secret`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScramCredential:
    """The user has no password for this mechanism any more."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScramCredentials:
    """With what users a cluster begins; changes nothing once any was ever set."""

    credentials: tuple[NewScramCredential, ...]
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAcls:
    """These ACLs hold from now on; those that are there already stay (ADR 53). Written from `image.MEMBERS_LEVEL` on
    only."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAcls:
    """These ACLs hold no more; those that are gone already stay away. Written from `image.MEMBERS_LEVEL` on only."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    entity: QuotaEntity
    key: str
    value: float | None
    """None: it is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuotas:
    """All of these quotas, in this order (ADR 54). Written from `image.MEMBERS_LEVEL` on only."""

    changes: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTransactionLog:
    """Make `image.TRANSACTIONS_TOPIC`, which is managed by the cluster itself (ADR 63). Written from
    `image.MEMBERS_LEVEL` on only."""

    topic_id: bytes
    partitions: int
    placed: tuple[tuple[BrokerId, ...], ...]
    """As of `CreateTopic`."""


Command = (
    FormCluster | RegisterBroker | SetDraining | CreateTopic | DeleteTopic | AddPartitions | AlterTopicConfigs
    | AllocateProducerIds | FinalizeFeatures | ReplaceReplica | MovePartition | CompleteMove | RecoverCluster
    | UnregisterBroker | DecommissionBroker | PauseBalancer | SetControllerVoters | CompleteControllerVoters
    | AlterBrokerConfigs | SetReplicationFactor | SetScramCredential | DeleteScramCredential | FirstScramCredentials
    | AddAcls | RemoveAcls | AlterQuotas | CreateTransactionLog | CancelMove
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of apply; the same on every replica, returned to the proposer."""

    error: int
    message: str = ""
    value: int = 0
    """AllocateProducerIds: first id of the block. CreateTopic, AddPartitions: number of partitions. ReplaceReplica: the
    binding that follows the folder that is gone.
    `codec.READ_INDEX`: index up to which the leader's log is committed and applied."""
