"""The effect of each controller command on the cluster image. Pure: (image, command) → (image, result).

Problem: every replica must get the same image and the same result from the same log, whatever binary it runs.
Mechanism: `transition` depends on nothing but the image and the command. A command that is not valid changes nothing,
and its result has a Kafka error code and a message. The rules here are those of feature level 1 and, where they say so,
of `MEMBERS_LEVEL`: a changed rule needs a higher finalised level (decision 16), or old and new replicas would diverge.
What it does not do: validate config *values*, replication factors or timeouts, nor look at who is alive; the APIs do
that before they propose (`topic_configs`, the admin API), because those rules may change between binaries.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from muster_coordinator.controller.access import alter_access
from muster_coordinator.controller.broker_configs import alter_broker_configs
from muster_coordinator.controller.commands import (
    AddAcls,
    AddPartitions,
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterQuotas,
    AlterTopicConfigs,
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
from muster_coordinator.controller.departures import decommission, require_unknown_folder, unregister
from muster_coordinator.controller.image import (
    EMPTY_ID,
    MEMBERS_LEVEL,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Broker,
    ClusterImage,
    Partition,
    Routing,
    Topic,
    all_ids,
    members_of,
    observers,
)
from muster_coordinator.controller.limits import BROKER_ID_MAX, GONE_FOLDERS_MAX, RACK_CHARS_MAX, UUID_BYTES
from muster_coordinator.controller.misfit import MisfitError, require, with_, without
from muster_coordinator.controller.moves import complete_move, move_partition, require_replicas
from muster_coordinator.controller.recovery import recover
from muster_coordinator.controller.replication import after_move, set_replication_factor
from muster_coordinator.controller.scram_credentials import (
    delete_credential,
    first_credentials,
    set_credential,
)
from muster_coordinator.controller.topic_names import colliding_name, name_error
from muster_coordinator.controller.voters import complete_voters, set_voters
from muster_coordinator.errors import Code
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, BrokerId, GroupNo, MemberNo, member_no
from muster_coordinator.limits import BROKERS_MAX, PRODUCER_ID_BLOCK, RAFT_GROUPS_MAX, SEGMENT_BYTES

_OfUsers = SetScramCredential | DeleteScramCredential | FirstScramCredentials
_OfMembers = (
    MovePartition | CompleteMove | UnregisterBroker | DecommissionBroker | PauseBalancer | SetControllerVoters
    | CompleteControllerVoters | AlterBrokerConfigs | SetReplicationFactor
    | AddAcls | RemoveAcls | AlterQuotas | CreateTransactionLog
)  # fmt: skip
_Change = (
    RegisterBroker | SetDraining | CreateTopic | DeleteTopic | AddPartitions | AlterTopicConfigs | AllocateProducerIds
    | FinalizeFeatures | ReplaceReplica | RecoverCluster | _OfMembers | _OfUsers
)  # fmt: skip

DONE = CommandResult(Code.NONE)
GROUP_NUMBER_MAX = 2**32 - 1
PRODUCER_ID_MAX = 2**63 - 1
CLUSTER_ID_CHARS = 22

TRANSACTIONS_TOPIC_CONFIGS = (("cleanup.policy", "compact"), ("segment.bytes", str(SEGMENT_BYTES)))
"""Configs of the transaction log in DescribeConfigs, as Kafka has them."""
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
    if level >= MEMBERS_LEVEL:
        return None
    what = _what_needs_the_level(command)
    if what is None:
        return None
    said = f"{what} needs feature level {MEMBERS_LEVEL}; the cluster has {level or 'none yet'}"
    return CommandResult(Code.UNSUPPORTED_VERSION, said)


_OF_THE_LEVEL: tuple[tuple[tuple[type, ...], str], ...] = (
    ((ReplaceReplica,), "replacing a replica"),
    ((MovePartition, CompleteMove), "moving a partition"),
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


def _what_needs_the_level(command: Command) -> str | None:
    """What of a command releases below `MEMBERS_LEVEL` do not know, for people; None: nothing."""
    if isinstance(command, RegisterBroker) and command.rack:
        return "a rack"
    if isinstance(command, CreateTopic | AddPartitions) and command.placed:
        return "placing partitions"
    return next((what for kinds, what in _OF_THE_LEVEL if isinstance(command, kinds)), None)


def raft_groups(cluster: ClusterImage) -> int:
    """Live Raft groups: the controller's and one per partition. O(topics)."""
    return 1 + sum(len(topic.partitions) for topic in cluster.topics.values())


def too_many_groups(cluster: ClusterImage, more: int) -> str | None:
    """Why this many more partitions are not possible; None if they are."""
    groups = raft_groups(cluster)
    if groups + more <= RAFT_GROUPS_MAX:
        return None
    return f"{more} more partitions would exceed the limit of {RAFT_GROUPS_MAX} Raft groups; {groups} are in use"


def rotated(members: tuple[MemberNo, ...], index: int) -> tuple[MemberNo, ...]:
    """All members, rotated so that each partition begins with another one."""
    start = index % len(members)
    return members[start:] + members[:start]


def _change(cluster: ClusterImage, command: _Change) -> tuple[ClusterImage, CommandResult]:
    early = None if isinstance(command, RecoverCluster) else level_refusal(cluster, command)
    if early is not None:
        return cluster, early
    match command:
        case RegisterBroker():
            return _register(cluster, command)
        case SetDraining():
            return _set_draining(cluster, command)
        case CreateTopic():
            return _create_topic(cluster, command)
        case DeleteTopic():
            return _delete_topic(cluster, command)
        case AddPartitions():
            return _add_partitions(cluster, command)
        case AlterTopicConfigs():
            return _alter_configs(cluster, command)
        case AllocateProducerIds():
            return _allocate_producer_ids(cluster, command)
        case FinalizeFeatures():
            return _finalize(cluster, command)
        case ReplaceReplica():
            return _replace(cluster, command)
        case RecoverCluster():
            return recover(cluster, command), DONE
        case SetScramCredential() | DeleteScramCredential() | FirstScramCredentials():
            return _change_users(cluster, command), DONE
        case _:
            return _change_members(cluster, command)


def _change_members(cluster: ClusterImage, command: _OfMembers) -> tuple[ClusterImage, CommandResult]:
    match command:
        case MovePartition() | CompleteMove():
            return _moved(cluster, _topic(cluster, command.topic_id), command)
        case UnregisterBroker() | DecommissionBroker() | PauseBalancer():
            return _depart(cluster, command), DONE
        case SetControllerVoters():
            return set_voters(cluster, command.voters), DONE
        case AlterBrokerConfigs():
            return alter_broker_configs(cluster, command), DONE
        case AddAcls() | RemoveAcls() | AlterQuotas():
            return alter_access(cluster, command), DONE
        case CreateTransactionLog():
            return _create_transaction_log(cluster, command)
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


# The cluster.


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
    _require_fresh_id(command.offsets_topic_id)
    require(command.feature_level >= 1, Code.INVALID_REQUEST, "the lowest feature level is 1")
    offsets_topic = Topic(
        name=OFFSETS_TOPIC,
        topic_id=command.offsets_topic_id,
        partitions=_partitions(tuple(member_no(voter, 0) for voter in voters), 0, partitions, FIRST_OFFSETS_GROUP),
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


# Brokers.


def _register(cluster: ClusterImage, command: RegisterBroker) -> tuple[ClusterImage, CommandResult]:
    broker = command.broker
    if broker not in cluster.voters and broker not in cluster.brokers:
        _require_newcomer(cluster, broker)
    require(len(command.replica_uuid) == UUID_BYTES, Code.INVALID_REQUEST, "a replica uuid has 16 bytes")
    short = len(command.rack) <= RACK_CHARS_MAX
    require(short, Code.INVALID_REQUEST, f"a rack's name has at most {RACK_CHARS_MAX} characters")
    require(
        command.feature_max >= cluster.feature_level,
        Code.UNSUPPORTED_VERSION,
        f"the cluster has feature level {cluster.feature_level}, broker {broker} supports up to {command.feature_max}",
    )
    known = cluster.brokers.get(broker)
    if cluster.feature_level >= MEMBERS_LEVEL:
        _require_folder(cluster, command)
    gone = known.gone if known is not None else cluster.unregistered.get(broker, ())
    fresh = Broker(
        broker=broker,
        replica_uuid=command.replica_uuid,
        incarnation=command.incarnation,
        endpoints=command.endpoints,
        admin=command.admin,
        draining=False,
        feature_max=command.feature_max,
        binding=len(gone),
        gone=gone,
        rack=command.rack,
        departing=known is not None and known.departing,
    )
    if known is not None and (known.bound or cluster.feature_level < MEMBERS_LEVEL):
        require(
            known.replica_uuid == command.replica_uuid,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"broker {broker} is registered with another data folder",
        )
        # The same start, proposed twice because the first answer was lost: a drain that was set in between stays.
        if replace(known, draining=False, rack=fresh.rack) == fresh:
            # Or it says its rack now, which it could not say below `MEMBERS_LEVEL`.
            same = replace(known, rack=fresh.rack)
            return cluster if same == known else replace(cluster, brokers=with_(cluster.brokers, broker, same)), DONE
        require(
            command.incarnation > known.incarnation,
            Code.STALE_BROKER_EPOCH,
            f"broker {broker} is registered with incarnation {known.incarnation}",
        )
    back = broker in cluster.unregistered
    unregistered = without(cluster.unregistered, broker) if back else cluster.unregistered
    return replace(cluster, brokers=with_(cluster.brokers, broker, fresh), unregistered=unregistered), DONE


def _require_newcomer(cluster: ClusterImage, broker: BrokerId) -> None:
    """A broker that the cluster was not formed with joins by its first registration. Releases below `MEMBERS_LEVEL`
    refuse it with these words."""
    may_join = cluster.feature_level >= MEMBERS_LEVEL
    require(may_join, Code.INVALID_REQUEST, f"broker {broker} is not a voter of this cluster")
    require(0 <= broker <= BROKER_ID_MAX, Code.INVALID_REQUEST, "a broker id is an i32, and not negative")
    ids, left = len(all_ids(cluster) - {broker}), len(cluster.unregistered)
    told = f", {left} of them unregistered, whose ids may be taken" if left else ""
    require(ids < BROKERS_MAX, Code.POLICY_VIOLATION, f"the cluster has {ids} brokers, the most there may be{told}")


def _require_folder(cluster: ClusterImage, command: RegisterBroker) -> None:
    """A folder that was ever replaced registers under no id again, and one of another broker is not bound to this."""
    uuid, known = command.replica_uuid, cluster.brokers.get(command.broker)
    require(uuid != EMPTY_ID, Code.INVALID_REQUEST, "a replica uuid is not all zero")
    bound = known is not None and known.replica_uuid == uuid
    require_unknown_folder(cluster, uuid)
    for other in cluster.brokers.values():
        require(
            uuid not in other.gone,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"data folder {uuid.hex()} of broker {other.broker} was replaced: remove it, and start with an empty one",
        )
        require(
            bound or uuid != other.replica_uuid,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"data folder {uuid.hex()} is bound to broker {other.broker}",
        )


def _replace(cluster: ClusterImage, command: ReplaceReplica) -> tuple[ClusterImage, CommandResult]:
    """Unbind the broker from its folder. What the broker had told of itself stays: it is where the next folder is
    expected, and the level that its binary is known to support counts until then, as no other is known."""
    broker, uuid = command.broker, command.gone_uuid
    known = _registered(cluster, broker)
    if uuid in known.gone:  # the same replacement, proposed again because the first answer was lost
        return cluster, CommandResult(Code.NONE, "", known.gone.index(uuid) + 1)
    require(known.bound, Code.INVALID_REQUEST, f"broker {broker} waits for a new data folder already")
    require(
        known.replica_uuid == uuid,
        Code.INVALID_REQUEST,
        f"broker {broker} is bound to data folder {known.replica_uuid.hex()}, not to {uuid.hex()}",
    )
    spared = broker not in cluster.voters or len(cluster.voters) > 1
    require(spared, Code.INVALID_REQUEST, f"broker {broker} is the cluster's only replica")
    unbound = [other.broker for other in cluster.brokers.values() if not other.bound]
    require(not unbound, Code.POLICY_VIOLATION, f"broker {min(unbound, default=-1)} waits for a new data folder")
    require(
        len(known.gone) < GONE_FOLDERS_MAX,
        Code.POLICY_VIOLATION,
        f"broker {broker} had {len(known.gone)} data folders replaced, the most that are kept",
    )
    emptied = replace(
        known,
        replica_uuid=EMPTY_ID,
        incarnation=0,
        draining=False,
        binding=known.binding + 1,
        gone=(*known.gone, uuid),
    )
    image = replace(cluster, brokers=with_(cluster.brokers, broker, emptied))
    return image, CommandResult(Code.NONE, "", emptied.binding)


def _set_draining(cluster: ClusterImage, command: SetDraining) -> tuple[ClusterImage, CommandResult]:
    known = _registered(cluster, command.broker)
    if known.draining == command.draining:
        return cluster, DONE
    changed = replace(known, draining=command.draining)
    return replace(cluster, brokers=with_(cluster.brokers, command.broker, changed)), DONE


def _depart(cluster: ClusterImage, command: UnregisterBroker | DecommissionBroker | PauseBalancer) -> ClusterImage:
    if isinstance(command, UnregisterBroker):
        return unregister(cluster, command)
    if isinstance(command, DecommissionBroker):
        return decommission(cluster, command)
    same = cluster.balancer_paused == command.paused
    return cluster if same else replace(cluster, balancer_paused=command.paused)


def _allocate_producer_ids(cluster: ClusterImage, command: AllocateProducerIds) -> tuple[ClusterImage, CommandResult]:
    _registered(cluster, command.broker)
    first = cluster.next_producer_id
    require(first <= PRODUCER_ID_MAX - PRODUCER_ID_BLOCK, Code.POLICY_VIOLATION, "all producer ids are used up")
    return replace(cluster, next_producer_id=first + PRODUCER_ID_BLOCK), CommandResult(Code.NONE, "", first)


def _registered(cluster: ClusterImage, broker: BrokerId) -> Broker:
    known = cluster.brokers.get(broker)
    if known is None:
        raise MisfitError(Code.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    return known


# Topics.


def _create_topic(cluster: ClusterImage, command: CreateTopic) -> tuple[ClusterImage, CommandResult]:
    name, topic_id, count = command.name, command.topic_id, command.partitions
    error = name_error(name)
    require(error is None, Code.INVALID_TOPIC_EXCEPTION, error or "")
    require(name not in cluster.topics, Code.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    other = colliding_name(name, cluster.topics)
    require(other is None, Code.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {other} in metric names")
    require(count > 0, Code.INVALID_PARTITIONS, f"a topic cannot have {count} partitions")
    _require_fresh_id(topic_id)
    unused = topic_id not in cluster.names_by_id and topic_id not in cluster.deleted_topic_ids
    require(unused, Code.INVALID_REQUEST, "this topic id is in use, or was in use before")
    _require_room(cluster, count)
    topic = Topic(
        name=name,
        topic_id=topic_id,
        partitions=_new_partitions(cluster, 0, count, command.placed),
        configs=_canonical(command.configs),
        internal=False,
    )
    created = replace(
        cluster,
        topics=with_(cluster.topics, name, topic),
        names_by_id=with_(cluster.names_by_id, topic_id, name),
        next_group=GroupNo(cluster.next_group + count),
    )
    return created, CommandResult(Code.NONE, "", count)


def _create_transaction_log(cluster: ClusterImage, command: CreateTransactionLog) -> tuple[ClusterImage, CommandResult]:
    """Every broker proposes it that is asked for a transaction's coordinator first: the second one changes nothing, and
    is told that the topic exists."""
    topic = CreateTopic(
        name=TRANSACTIONS_TOPIC,
        topic_id=command.topic_id,
        partitions=command.partitions,
        configs=TRANSACTIONS_TOPIC_CONFIGS,
        placed=command.placed,
    )
    created, result = _create_topic(cluster, topic)
    internal = replace(created.topics[TRANSACTIONS_TOPIC], internal=True)
    return replace(created, topics=with_(created.topics, TRANSACTIONS_TOPIC, internal)), result


def _delete_topic(cluster: ClusterImage, command: DeleteTopic) -> tuple[ClusterImage, CommandResult]:
    topic = _user_topic(cluster, command.topic_id)
    deleted = replace(
        cluster,
        topics=without(cluster.topics, topic.name),
        names_by_id=without(cluster.names_by_id, topic.topic_id),
        deleted_topic_ids=cluster.deleted_topic_ids | {topic.topic_id},
    )
    return deleted, DONE


def _add_partitions(cluster: ClusterImage, command: AddPartitions) -> tuple[ClusterImage, CommandResult]:
    topic = _user_topic(cluster, command.topic_id)
    have, total = len(topic.partitions), command.total
    require(
        total > have, Code.INVALID_PARTITIONS, f"topic {topic.name} has {have} partitions; {total} is not an increase"
    )
    _require_room(cluster, total - have)
    grown = replace(
        topic,
        partitions=topic.partitions + _new_partitions(cluster, have, total, command.placed),
    )
    image = replace(
        cluster,
        topics=with_(cluster.topics, topic.name, grown),
        next_group=GroupNo(cluster.next_group + total - have),
    )
    return image, CommandResult(Code.NONE, "", total)


def _alter_configs(cluster: ClusterImage, command: AlterTopicConfigs) -> tuple[ClusterImage, CommandResult]:
    topic = _user_topic(cluster, command.topic_id)
    configs = _canonical(command.configs)
    require(
        topic.configs == _canonical(command.expected),
        Code.INVALID_REQUEST,
        f"the configs of topic {topic.name} were changed meanwhile",
    )
    if configs == topic.configs:
        return cluster, DONE
    return replace(cluster, topics=with_(cluster.topics, topic.name, replace(topic, configs=configs))), DONE


def _moved(
    cluster: ClusterImage, topic: Topic, command: MovePartition | CompleteMove
) -> tuple[ClusterImage, CommandResult]:
    index = command.partition
    exists = 0 <= index < len(topic.partitions)
    require(exists, Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has {len(topic.partitions)} partitions")
    before = topic.partitions[index]
    if isinstance(command, MovePartition):
        after = move_partition(cluster, before, command.voters)
    else:
        after = complete_move(before, command.voters)
    if after is before:
        return cluster, DONE
    partitions = (*topic.partitions[:index], after, *topic.partitions[index + 1 :])
    moved = after_move(replace(topic, partitions=partitions), index, len(before.voters))
    return replace(cluster, topics=with_(cluster.topics, topic.name, moved)), DONE


def _user_topic(cluster: ClusterImage, topic_id: bytes) -> Topic:
    topic = _topic(cluster, topic_id)
    require(not topic.internal, Code.POLICY_VIOLATION, f"{topic.name} is managed by the cluster itself")
    return topic


def _topic(cluster: ClusterImage, topic_id: bytes) -> Topic:
    name = cluster.names_by_id.get(topic_id)
    if name is None:
        raise MisfitError(Code.UNKNOWN_TOPIC_ID, "no topic has this id")
    return cluster.topics[name]


def _require_fresh_id(topic_id: bytes) -> None:
    legal = len(topic_id) == UUID_BYTES and topic_id != EMPTY_ID
    require(legal, Code.INVALID_REQUEST, "a topic id has 16 bytes that are not all zero")


def _require_room(cluster: ClusterImage, more: int) -> None:
    too_many = too_many_groups(cluster, more)
    require(too_many is None, Code.POLICY_VIOLATION, too_many or "")
    fits = cluster.next_group + more <= GROUP_NUMBER_MAX
    require(fits, Code.POLICY_VIOLATION, "all Raft group numbers are used up")


def _new_partitions(
    cluster: ClusterImage, first: int, end: int, placed: tuple[tuple[BrokerId, ...], ...]
) -> tuple[Partition, ...]:
    """Where the proposer has placed them: judged anew, since a broker may have left or lost its folder meanwhile. Is
    nothing placed, on all brokers that formed the cluster."""
    if not placed:
        return _partitions(members_of(cluster, cluster.voters), first, end, cluster.next_group)
    require(
        len(placed) == end - first,
        Code.INVALID_REPLICA_ASSIGNMENT,
        f"{end - first} partitions are to be made, and {len(placed)} are placed",
    )
    for brokers in placed:
        require_replicas(cluster, brokers)
    return tuple(
        Partition(group=GroupNo(cluster.next_group + index), members=members_of(cluster, brokers), placed=True)
        for index, brokers in enumerate(placed)
    )


def _partitions(members: tuple[MemberNo, ...], first: int, end: int, group: int) -> tuple[Partition, ...]:
    return tuple(
        Partition(group=GroupNo(group + index - first), members=rotated(members, index)) for index in range(first, end)
    )


def _canonical(configs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    names = {name for name, _ in configs}
    require(len(names) == len(configs), Code.INVALID_CONFIG, "a config is given twice")
    return tuple(sorted(configs))
