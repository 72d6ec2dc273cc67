"""The effect of each controller command on the cluster image. Pure: (image, command) → (image, result).

Problem: every replica must get the same image and the same result from the same log, whatever binary it runs.
Mechanism: `transition` depends on nothing but the image and the command. A command that is not valid changes nothing,
and its result has a Kafka error code and a message. What a command does is in a file by its noun (`topics`, `brokers`,
`moves`, `departures`, `access`, ...); here is which of them it is, and the forming of the cluster. The rules are those
of feature level 1 and, where they say so, of a later one: a changed rule needs a higher finalised level (decision
16), or old and new replicas would diverge. What it does not do: validate config *values*, replication factors or
timeouts, nor look at who is alive; the APIs do that before they propose (`topic_configs`, the admin API), because those
rules may change between binaries.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from muster_coordinator.controller.access import alter_access
from muster_coordinator.controller.broker_configs import alter_broker_configs
from muster_coordinator.controller.brokers import register, registered, replace_folder, set_draining
from muster_coordinator.controller.codec import has_stream_configs
from muster_coordinator.controller.commands import (
    AddAcls,
    AddPartitions,
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterQuotas,
    AlterTopicConfigs,
    CancelMove,
    Command,
    CommandResult,
    CompleteControllerVoters,
    CompleteMove,
    CreateTopic,
    CreateTransactionLog,
    DecommissionBroker,
    DeleteScramCredential,
    DeleteTopic,
    FinalizeFeatures,
    FirstScramCredentials,
    FormCluster,
    MovePartition,
    PauseBalancer,
    RecoverCluster,
    RegisterBroker,
    RemoveAcls,
    ReplaceReplica,
    SetControllerVoters,
    SetDraining,
    SetReplicationFactor,
    SetScramCredential,
    UnregisterBroker,
)
from muster_coordinator.controller.departures import decommission, unregister
from muster_coordinator.controller.image import (
    MEMBERS_LEVEL,
    OFFSETS_TOPIC,
    STREAM_CONFIGS_LEVEL,
    ClusterImage,
    Routing,
    Topic,
    observers,
)
from muster_coordinator.controller.misfit import MisfitError, require
from muster_coordinator.controller.recovery import recover
from muster_coordinator.controller.replication import set_replication_factor
from muster_coordinator.controller.scram_credentials import (
    delete_credential,
    first_credentials,
    set_credential,
)
from muster_coordinator.controller.topics import (
    add_partitions,
    alter_topic_configs,
    create_topic,
    create_transaction_log,
    delete_topic,
    first_partitions,
    moved,
    require_fresh_id,
    topic_of,
)
from muster_coordinator.controller.voters import complete_voters, set_voters
from muster_coordinator.errors import Code
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo, member_no
from muster_coordinator.limits import PRODUCER_ID_BLOCK, RAFT_GROUPS_MAX, SEGMENT_BYTES

_OfUsers = SetScramCredential | DeleteScramCredential | FirstScramCredentials
_OfMembers = (
    MovePartition | CompleteMove | UnregisterBroker | DecommissionBroker | PauseBalancer | SetControllerVoters
    | CompleteControllerVoters | AlterBrokerConfigs | SetReplicationFactor
    | AddAcls | RemoveAcls | AlterQuotas | CreateTransactionLog | CancelMove
)  # fmt: skip
_Change = (
    RegisterBroker | SetDraining | CreateTopic | DeleteTopic | AddPartitions | AlterTopicConfigs | AllocateProducerIds
    | FinalizeFeatures | ReplaceReplica | RecoverCluster | _OfMembers | _OfUsers
)  # fmt: skip

DONE = CommandResult(Code.NONE)
PRODUCER_ID_MAX = 2**63 - 1
CLUSTER_ID_CHARS = 22

OFFSETS_TOPIC_CONFIGS = (("cleanup.policy", "compact"), ("segment.bytes", str(SEGMENT_BYTES)))
"""Configs of the offsets topic in DescribeConfigs: Kafka's clean-up policy for it; decision 3 says what is done."""


def transition(cluster: ClusterImage | None, command: Command) -> tuple[ClusterImage | None, CommandResult]:
    """The next image and the proposer's result. Returns the same image object when nothing changed."""
    try:
        if isinstance(command, FormCluster):
            return _form(cluster, command)
        if cluster is None:
            raise MisfitError(Code.NOT_CONTROLLER, "the cluster is not formed yet")
        return _change(cluster, command)
    except MisfitError as misfit:
        return cluster, misfit.result


def level_refusal(cluster: ClusterImage | None, command: Command) -> CommandResult | None:
    """Why a command must not be proposed with this image: releases below its feature level could not pass its entry.
    None: it may be, as levels never fall. Apply says the same, but of `RecoverCluster`, which is never proposed."""
    level = 0 if cluster is None else cluster.feature_level
    if isinstance(command, RecoverCluster):
        return CommandResult(Code.INVALID_REQUEST, "a cluster is recovered while no replica of it runs")
    if level >= STREAM_CONFIGS_LEVEL:
        return None
    needed = STREAM_CONFIGS_LEVEL
    what = _what_needs_streams(command)
    if what is None and level < MEMBERS_LEVEL:
        what, needed = _what_needs_the_level(command), MEMBERS_LEVEL
    if what is None:
        return None
    said = f"{what} needs feature level {needed}; the cluster has {level or 'none yet'}"
    return CommandResult(Code.UNSUPPORTED_VERSION, said)


_OF_THE_LEVEL: tuple[tuple[tuple[type, ...], str], ...] = (
    ((ReplaceReplica,), "replacing a replica"),
    ((MovePartition, CompleteMove, CancelMove), "moving a partition"),
    ((UnregisterBroker,), "unregistering a broker"),
    ((DecommissionBroker,), "decommissioning a broker"),
    ((PauseBalancer,), "balancing"),
    ((SetControllerVoters, CompleteControllerVoters), "changing who votes in the controller's group"),
    ((AlterBrokerConfigs,), "changing a broker's settings"),
    ((SetReplicationFactor,), "changing the replication factor"),
    ((SetScramCredential, DeleteScramCredential, FirstScramCredentials), "having users"),
    ((AddAcls, RemoveAcls), "changing ACLs"),
    ((AlterQuotas,), "setting quotas"),
    ((CreateTransactionLog,), "having transactions"),
)


def _what_needs_streams(command: Command) -> str | None:
    """What of a command releases below `STREAM_CONFIGS_LEVEL` do not know, for people; None: nothing."""
    streams = isinstance(command, CreateTopic) and has_stream_configs(command.configs)
    return "a topic with configs redis.*" if streams else None


def _what_needs_the_level(command: Command) -> str | None:
    """What of a command releases below `MEMBERS_LEVEL` do not know, for people; None: nothing."""
    if isinstance(command, RegisterBroker) and command.rack:
        return "a rack"
    if isinstance(command, CreateTopic | AddPartitions) and command.placed:
        return "placing partitions"
    return next((what for kinds, what in _OF_THE_LEVEL if isinstance(command, kinds)), None)


def _change(cluster: ClusterImage, command: _Change) -> tuple[ClusterImage, CommandResult]:
    early = None if isinstance(command, RecoverCluster) else level_refusal(cluster, command)
    if early is not None:
        return cluster, early
    match command:
        case RegisterBroker():
            return register(cluster, command)
        case SetDraining():
            return set_draining(cluster, command)
        case CreateTopic():
            return create_topic(cluster, command)
        case DeleteTopic():
            return delete_topic(cluster, command)
        case AddPartitions():
            return add_partitions(cluster, command)
        case AlterTopicConfigs():
            return alter_topic_configs(cluster, command)
        case AllocateProducerIds():
            return _allocate_producer_ids(cluster, command)
        case FinalizeFeatures():
            return _finalize(cluster, command)
        case ReplaceReplica():
            return replace_folder(cluster, command)
        case RecoverCluster():
            return recover(cluster, command), DONE
        case SetScramCredential() | DeleteScramCredential() | FirstScramCredentials():
            return _change_users(cluster, command), DONE
        case _:
            return _change_members(cluster, command)


def _change_members(cluster: ClusterImage, command: _OfMembers) -> tuple[ClusterImage, CommandResult]:
    match command:
        case MovePartition() | CompleteMove() | CancelMove():
            return moved(cluster, topic_of(cluster, command.topic_id), command)
        case UnregisterBroker() | DecommissionBroker() | PauseBalancer():
            return _depart(cluster, command), DONE
        case SetControllerVoters():
            return set_voters(cluster, command.voters), DONE
        case AlterBrokerConfigs():
            return alter_broker_configs(cluster, command), DONE
        case AddAcls() | RemoveAcls() | AlterQuotas():
            return alter_access(cluster, command), DONE
        case CreateTransactionLog():
            return create_transaction_log(cluster, command)
        case CompleteControllerVoters():
            return complete_voters(cluster, command.voters), DONE
        case SetReplicationFactor():
            return set_replication_factor(cluster, command), DONE
        case _:
            assert_never(command)


def _change_users(cluster: ClusterImage, command: _OfUsers) -> ClusterImage:
    match command:
        case SetScramCredential():
            return set_credential(cluster, command)
        case DeleteScramCredential():
            return delete_credential(cluster, command)
        case _:
            return first_credentials(cluster, command)


def _form(cluster: ClusterImage | None, command: FormCluster) -> tuple[ClusterImage | None, CommandResult]:
    if cluster is not None:
        same = (
            cluster.cluster_id == command.cluster_id
            and cluster.voters == command.voters
            and cluster.routing.offsets_partitions == command.offsets_partitions
            and cluster.topics[OFFSETS_TOPIC].topic_id == command.offsets_topic_id
        )
        # A second leader may propose what the first one already did; that changes nothing. Other values mean that this
        # is another cluster.
        require(same, Code.INVALID_REQUEST, f"this is cluster {cluster.cluster_id}, formed with other values")
        return cluster, DONE
    voters, partitions = command.voters, command.offsets_partitions
    require(len(command.cluster_id) == CLUSTER_ID_CHARS, Code.INVALID_REQUEST, "a cluster id has 22 characters")
    require(0 < len(voters) == len(set(voters)), Code.INVALID_REQUEST, "voters must be distinct, and at least one")
    require(min(voters) >= 0, Code.INVALID_REQUEST, "a broker id must not be negative")
    require(
        0 < partitions < RAFT_GROUPS_MAX, Code.INVALID_PARTITIONS, f"{partitions} offsets partitions are not possible"
    )
    require_fresh_id(command.offsets_topic_id)
    require(command.feature_level >= 1, Code.INVALID_REQUEST, "the lowest feature level is 1")
    offsets_topic = Topic(
        name=OFFSETS_TOPIC,
        topic_id=command.offsets_topic_id,
        partitions=first_partitions(tuple(member_no(voter, 0) for voter in voters), 0, partitions, FIRST_OFFSETS_GROUP),
        configs=OFFSETS_TOPIC_CONFIGS,
        internal=True,
    )
    formed = ClusterImage(
        applied=0,
        cluster_id=command.cluster_id,
        voters=voters,
        brokers=MappingProxyType({}),
        topics=MappingProxyType({OFFSETS_TOPIC: offsets_topic}),
        names_by_id=MappingProxyType({offsets_topic.topic_id: OFFSETS_TOPIC}),
        deleted_topic_ids=frozenset(),
        routing=Routing(offsets_partitions=partitions),
        feature_level=command.feature_level,
        next_group=GroupNo(FIRST_OFFSETS_GROUP + partitions),
        next_producer_id=0,
    )
    return formed, DONE


def _finalize(cluster: ClusterImage, command: FinalizeFeatures) -> tuple[ClusterImage, CommandResult]:
    level = command.feature_level
    if level == cluster.feature_level:
        return cluster, DONE
    require(level > cluster.feature_level, Code.INVALID_REQUEST, f"feature level {cluster.feature_level} is finalised")
    for voter in (*cluster.voters, *observers(cluster)):
        broker = cluster.brokers.get(voter)
        if broker is None:
            raise MisfitError(Code.INVALID_REQUEST, f"broker {voter} has never registered")
        require(
            broker.feature_max >= level,
            Code.UNSUPPORTED_VERSION,
            f"broker {voter} supports feature levels up to {broker.feature_max}",
        )
    return replace(cluster, feature_level=level), DONE


def _depart(cluster: ClusterImage, command: UnregisterBroker | DecommissionBroker | PauseBalancer) -> ClusterImage:
    if isinstance(command, UnregisterBroker):
        return unregister(cluster, command)
    if isinstance(command, DecommissionBroker):
        return decommission(cluster, command)
    same = cluster.balancer_paused == command.paused
    return cluster if same else replace(cluster, balancer_paused=command.paused)


def _allocate_producer_ids(cluster: ClusterImage, command: AllocateProducerIds) -> tuple[ClusterImage, CommandResult]:
    registered(cluster, command.broker)
    first = cluster.next_producer_id
    require(first <= PRODUCER_ID_MAX - PRODUCER_ID_BLOCK, Code.POLICY_VIOLATION, "all producer ids are used up")
    return replace(cluster, next_producer_id=first + PRODUCER_ID_BLOCK), CommandResult(Code.NONE, "", first)
