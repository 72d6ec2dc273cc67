"""Topics in the image: CreateTopic, DeleteTopic, AddPartitions, AlterTopicConfigs, and where partitions are. Pure.

Invariant: ids of topics and numbers of Raft groups are never given twice, or records of a deleted topic could appear in
its successor (trap T2). Where partitions are placed is the proposer's choice (`placement`); each named broker is judged
here, and that no two topics are one stream (ADR 95). What this does not do: validate values of other configs, which
the APIs do before they propose (`topic_configs`).
"""

from dataclasses import replace

from muster_coordinator.controller.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CancelMove,
    CommandResult,
    CompleteMove,
    CreateTopic,
    CreateTransactionLog,
    DeleteTopic,
    MovePartition,
)
from muster_coordinator.controller.image import (
    EMPTY_ID,
    TRANSACTIONS_TOPIC,
    ClusterImage,
    Partition,
    Topic,
    members_of,
)
from muster_coordinator.controller.limits import UUID_BYTES
from muster_coordinator.controller.misfit import MisfitError, require, with_, without
from muster_coordinator.controller.moves import cancel_move, complete_move, move_partition, require_replicas
from muster_coordinator.controller.replication import after_cancelled_move, after_move
from muster_coordinator.controller.stream_names import STREAM_CONFIG, StreamNames, with_same_stream
from muster_coordinator.controller.topic_names import colliding_name, name_error
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo, MemberNo
from muster_coordinator.limits import RAFT_GROUPS_MAX, SEGMENT_BYTES

DONE = CommandResult(Code.NONE)
GROUP_NUMBER_MAX = 2**32 - 1
TRANSACTIONS_TOPIC_CONFIGS = (("cleanup.policy", "compact"), ("segment.bytes", str(SEGMENT_BYTES)))
"""Configs of the transaction log in DescribeConfigs, as Kafka has them."""


def raft_groups(cluster: ClusterImage) -> int:
    """Live Raft groups: the controller's and one per partition. O(topics)."""
    return 1 + sum(len(topic.partitions) for topic in cluster.topics.values())


def too_many_groups(cluster: ClusterImage, more: int) -> str | None:
    """Why this many more partitions are not possible; None if they are."""
    groups = raft_groups(cluster)
    if groups + more <= RAFT_GROUPS_MAX:
        return None
    return f"{more} more partitions would exceed the limit of {RAFT_GROUPS_MAX} Raft groups; {groups} are in use"


def create_topic(cluster: ClusterImage, command: CreateTopic) -> tuple[ClusterImage, CommandResult]:
    """A topic, with all its partitions."""
    name, topic_id, count = command.name, command.topic_id, command.partitions
    error = name_error(name)
    require(error is None, Code.INVALID_TOPIC_EXCEPTION, error or "")
    require(name not in cluster.topics, Code.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    other = colliding_name(name, cluster.topics)
    require(other is None, Code.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {other} in metric names")
    require(count > 0, Code.INVALID_PARTITIONS, f"a topic cannot have {count} partitions")
    require_fresh_id(topic_id)
    unused = topic_id not in cluster.names_by_id and topic_id not in cluster.deleted_topic_ids
    require(unused, Code.INVALID_REQUEST, "this topic id is in use, or was in use before")
    _require_room(cluster, count)
    _require_own_streams(cluster, command)
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


def _require_own_streams(cluster: ClusterImage, command: CreateTopic) -> None:
    """Two brokers may have proposed topics of one stream: the log decides which of them is made."""
    pattern = dict(command.configs).get(STREAM_CONFIG)
    if pattern is None:
        return
    try:
        names = StreamNames.parse(pattern, command.name)
    except ValueError as error:
        raise MisfitError(Code.INVALID_CONFIG, f"{STREAM_CONFIG}: {error}") from error
    other = with_same_stream(names, cluster.topics.values())
    require(other is None, Code.INVALID_CONFIG, f"{STREAM_CONFIG}: topic {other} has one of these streams")


def create_transaction_log(cluster: ClusterImage, command: CreateTransactionLog) -> tuple[ClusterImage, CommandResult]:
    """Every broker proposes it that is asked for a transaction's coordinator first: the second one changes nothing, and
    is told that the topic exists."""
    topic = CreateTopic(
        name=TRANSACTIONS_TOPIC,
        topic_id=command.topic_id,
        partitions=command.partitions,
        configs=TRANSACTIONS_TOPIC_CONFIGS,
        placed=command.placed,
    )
    created, result = create_topic(cluster, topic)
    internal = replace(created.topics[TRANSACTIONS_TOPIC], internal=True)
    return replace(created, topics=with_(created.topics, TRANSACTIONS_TOPIC, internal)), result


def delete_topic(cluster: ClusterImage, command: DeleteTopic) -> tuple[ClusterImage, CommandResult]:
    """Its name is free then, its id never again."""
    topic = _user_topic(cluster, command.topic_id)
    deleted = replace(
        cluster,
        topics=without(cluster.topics, topic.name),
        names_by_id=without(cluster.names_by_id, topic.topic_id),
        deleted_topic_ids=cluster.deleted_topic_ids | {topic.topic_id},
    )
    return deleted, DONE


def add_partitions(cluster: ClusterImage, command: AddPartitions) -> tuple[ClusterImage, CommandResult]:
    """More partitions for a topic, at its end."""
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


def alter_topic_configs(cluster: ClusterImage, command: AlterTopicConfigs) -> tuple[ClusterImage, CommandResult]:
    """All overrides of a topic, in place of those that the command expects."""
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


def moved(
    cluster: ClusterImage, topic: Topic, command: MovePartition | CompleteMove | CancelMove
) -> tuple[ClusterImage, CommandResult]:
    """A partition is to be elsewhere, or is there, or is to stay after all."""
    index = command.partition
    exists = 0 <= index < len(topic.partitions)
    require(exists, Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has {len(topic.partitions)} partitions")
    before = topic.partitions[index]
    if isinstance(command, MovePartition):
        after = move_partition(cluster, before, command.voters)
    elif isinstance(command, CancelMove):
        after = cancel_move(cluster, before, command.voters)
    else:
        after = complete_move(before, command.voters)
    if after is before:
        return cluster, DONE
    partitions = (*topic.partitions[:index], after, *topic.partitions[index + 1 :])
    then = after_cancelled_move if isinstance(command, CancelMove) else after_move
    moved = then(replace(topic, partitions=partitions), index, len(before.voters))
    return replace(cluster, topics=with_(cluster.topics, topic.name, moved)), DONE


def _user_topic(cluster: ClusterImage, topic_id: bytes) -> Topic:
    topic = topic_of(cluster, topic_id)
    require(not topic.internal, Code.POLICY_VIOLATION, f"{topic.name} is managed by the cluster itself")
    return topic


def topic_of(cluster: ClusterImage, topic_id: bytes) -> Topic:
    """The topic with this id. Raises MisfitError."""
    name = cluster.names_by_id.get(topic_id)
    if name is None:
        raise MisfitError(Code.UNKNOWN_TOPIC_ID, "no topic has this id")
    return cluster.topics[name]


def require_fresh_id(topic_id: bytes) -> None:
    """Raises MisfitError for what can be the id of no topic."""
    legal = len(topic_id) == UUID_BYTES and topic_id != EMPTY_ID
    require(legal, Code.INVALID_REQUEST, "a topic id has 16 bytes that are not all zero")


def _require_room(cluster: ClusterImage, more: int) -> None:
    too_many = too_many_groups(cluster, more)
    require(too_many is None, Code.POLICY_VIOLATION, too_many or "")
    fits = cluster.next_group + more <= GROUP_NUMBER_MAX
    require(fits, Code.POLICY_VIOLATION, "all Raft group numbers are used up")


def rotated(members: tuple[MemberNo, ...], index: int) -> tuple[MemberNo, ...]:
    """All members, rotated so that each partition begins with another one."""
    start = index % len(members)
    return members[start:] + members[:start]


def _new_partitions(
    cluster: ClusterImage, first: int, end: int, placed: tuple[tuple[BrokerId, ...], ...]
) -> tuple[Partition, ...]:
    """Where the proposer has placed them: judged anew, since a broker may have left or lost its folder meanwhile. Is
    nothing placed, on all brokers that formed the cluster."""
    if not placed:
        return first_partitions(members_of(cluster, cluster.voters), first, end, cluster.next_group)
    require(
        len(placed) == end - first,
        Code.INVALID_REPLICA_ASSIGNMENT,
        f"{end - first} partitions are to be made, and {len(placed)} are placed",
    )
    # Thousands of partitions are on few different sets of brokers: each is judged once.
    members = {brokers: _members_for(cluster, brokers) for brokers in dict.fromkeys(placed)}
    return tuple(
        Partition(group=GroupNo(cluster.next_group + index), members=members[brokers], placed=True)
        for index, brokers in enumerate(placed)
    )


def _members_for(cluster: ClusterImage, brokers: tuple[BrokerId, ...]) -> tuple[MemberNo, ...]:
    require_replicas(cluster, brokers)
    return members_of(cluster, brokers)


def first_partitions(members: tuple[MemberNo, ...], first: int, end: int, group: int) -> tuple[Partition, ...]:
    """Partitions on all of these, each beginning with another one."""
    return tuple(
        Partition(group=GroupNo(group + index - first), members=rotated(members, index)) for index in range(first, end)
    )


def _canonical(configs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    names = {name for name, _ in configs}
    require(len(names) == len(configs), Code.INVALID_CONFIG, "a config is given twice")
    return tuple(sorted(configs))
