"""Versioned bytes of controller commands and their results (COMMAND entries of Raft group 0, peer forwarding).

Problem: the same bytes are proposed by one binary, applied by another and replayed years later. Mechanism: two leading
bytes, layout version and kind, then the fields of `commands` in a fixed order; equal values give equal bytes. A command
with something that releases below `image.MEMBERS_LEVEL` do not know has version 2, one with something that is not known
below `image.STREAM_CONFIGS_LEVEL` version 3, and neither is proposed below its level (`transitions.level_refusal`); the
same command without it is written as these releases write it. An unknown version or kind raises `UnsupportedFormat` (a
replica must not skip a state change that it cannot read, decision 16), malformed bytes raise `Corruption`. What it does
not do: validate a command; `transitions` does, at apply.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from muster_coordinator.controller.access_bytes import put_access, take_acls, take_quota_changes
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
    NewScramCredential,
    PauseBalancer,
    RecoverCluster,
    RecoveredSeat,
    RegisterBroker,
    RemoveAcls,
    ReplaceReplica,
    SetControllerVoters,
    SetDraining,
    SetReplicationFactor,
    SetScramCredential,
    UnregisterBroker,
)
from muster_coordinator.controller.packing import Packer, Unpacker
from muster_coordinator.controller.topic_configs import OF_REDIS
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.ids import BrokerId

Placed = tuple[tuple[BrokerId, ...], ...]
S = TypeVar("S", bound=Collection[object])

COMMAND_VERSION = 1
PLACED_VERSION = 2
"""Of a RegisterBroker with a rack, and of a CreateTopic or AddPartitions that says where its partitions are."""
STREAMS_VERSION = 3
"""Of a CreateTopic with configs `redis.*`: a release that does not know them would serve another stream."""
RESULT_VERSION = 1

# Kinds are part of docs/format.md: never renumber, never reuse.
FORM_CLUSTER = 1
REGISTER_BROKER = 2
SET_DRAINING = 3
CREATE_TOPIC = 4
DELETE_TOPIC = 5
ADD_PARTITIONS = 6
ALTER_TOPIC_CONFIGS = 7
ALLOCATE_PRODUCER_IDS = 8
FINALIZE_FEATURES = 9
REPLACE_REPLICA = 10  # this and those after it: from `image.MEMBERS_LEVEL` on
MOVE_PARTITION = 11
COMPLETE_MOVE = 12
RECOVER_CLUSTER = 13
UNREGISTER_BROKER = 14
SET_CONTROLLER_VOTERS = 15
COMPLETE_CONTROLLER_VOTERS = 16
DECOMMISSION_BROKER = 17
PAUSE_BALANCER = 18
ALTER_BROKER_CONFIGS = 19
SET_REPLICATION_FACTOR = 20
SET_SCRAM_CREDENTIAL = 24
DELETE_SCRAM_CREDENTIAL = 25
FIRST_SCRAM_CREDENTIALS = 26
ADD_ACLS = 27
REMOVE_ACLS = 28
ALTER_QUOTAS = 29
CREATE_TRANSACTION_LOG = 30
CANCEL_MOVE = 32

READ_INDEX = bytes((COMMAND_VERSION, 255))
"""Not a command, and never in a log. Forwarded like a command, it asks the leader for the index up to which its log is
committed (`CommandResult.value`). A binary that does not know it answers `UNSUPPORTED_VERSION`, as to any unknown
kind."""


_MOVES: Mapping[type[MovePartition | CompleteMove | CancelMove], int] = {
    MovePartition: MOVE_PARTITION,
    CompleteMove: COMPLETE_MOVE,
    CancelMove: CANCEL_MOVE,
}


def encode_command(command: Command) -> bytes:
    """The bytes of a COMMAND entry."""
    match command:
        case FormCluster():
            p = Packer(COMMAND_VERSION, FORM_CLUSTER)
            p.text(command.cluster_id)
            p.i32s(command.voters)
            p.i32(command.offsets_partitions)
            p.blob(command.offsets_topic_id)
            p.i32(command.feature_level)
        case RegisterBroker():
            p = _register_broker_bytes(command)
        case SetDraining():
            p = Packer(COMMAND_VERSION, SET_DRAINING)
            p.i32(command.broker)
            p.u8(command.draining)
        case CreateTopic():
            p = _create_topic_bytes(command)
        case DeleteTopic():
            p = Packer(COMMAND_VERSION, DELETE_TOPIC)
            p.blob(command.topic_id)
        case AddPartitions():
            p = Packer(_version(command.placed), ADD_PARTITIONS)
            p.blob(command.topic_id)
            p.i32(command.total)
            _put_placed(p, command.placed)
        case AlterTopicConfigs() | AlterBrokerConfigs():
            p = _altered(command)
            p.configs(command.expected)
            p.configs(command.configs)
        case AllocateProducerIds():
            p = Packer(COMMAND_VERSION, ALLOCATE_PRODUCER_IDS)
            p.i32(command.broker)
        case FinalizeFeatures():
            p = Packer(COMMAND_VERSION, FINALIZE_FEATURES)
            p.i32(command.feature_level)
        case ReplaceReplica():
            p = Packer(COMMAND_VERSION, REPLACE_REPLICA)
            p.i32(command.broker)
            p.blob(command.gone_uuid)
        case MovePartition() | CompleteMove() | CancelMove():
            p = Packer(COMMAND_VERSION, _MOVES[type(command)])
            p.blob(command.topic_id)
            p.i32(command.partition)
            p.i32s(command.voters)
        case RecoverCluster():
            p = Packer(COMMAND_VERSION, RECOVER_CLUSTER)
            p.many(command.seats, lambda seat: _put_seat(p, seat))
            p.u32(command.next_group)
            p.i64(command.next_producer_id)
        case UnregisterBroker() | DecommissionBroker() | PauseBalancer():
            p = _departure(command)
        case _:
            return _of_voters_or_access(command)
    return p.done()


def _of_voters_or_access(
    command: SetControllerVoters
    | CompleteControllerVoters
    | SetReplicationFactor
    | SetScramCredential
    | DeleteScramCredential
    | FirstScramCredentials
    | AddAcls
    | RemoveAcls
    | AlterQuotas
    | CreateTransactionLog,
) -> bytes:
    if isinstance(command, CreateTransactionLog):
        return _transaction_log(command)
    if isinstance(command, SetControllerVoters | CompleteControllerVoters):
        return _of_voters(command).done()
    if isinstance(command, SetScramCredential | DeleteScramCredential | FirstScramCredentials):
        return _of_users(command).done()
    return _factor(command) if isinstance(command, SetReplicationFactor) else _access(command)


def _of_voters(command: SetControllerVoters | CompleteControllerVoters) -> Packer:
    wanted = isinstance(command, SetControllerVoters)
    p = Packer(COMMAND_VERSION, SET_CONTROLLER_VOTERS if wanted else COMPLETE_CONTROLLER_VOTERS)
    p.i32s(command.voters)
    return p


def _transaction_log(command: CreateTransactionLog) -> bytes:
    p = Packer(COMMAND_VERSION, CREATE_TRANSACTION_LOG)
    p.blob(command.topic_id)
    p.i32(command.partitions)
    p.many(command.placed, p.i32s)
    return p.done()


def _access(command: AddAcls | RemoveAcls | AlterQuotas) -> bytes:
    if isinstance(command, AlterQuotas):
        kind = ALTER_QUOTAS
    else:
        kind = ADD_ACLS if isinstance(command, AddAcls) else REMOVE_ACLS
    p = Packer(COMMAND_VERSION, kind)
    put_access(p, command)
    return p.done()


def _factor(command: SetReplicationFactor) -> bytes:
    p = Packer(COMMAND_VERSION, SET_REPLICATION_FACTOR)
    p.i32(command.factor)
    p.many(command.topics, p.blob)
    p.u8(command.every_topic)
    return p.done()


def _of_users(command: SetScramCredential | DeleteScramCredential | FirstScramCredentials) -> Packer:
    if isinstance(command, DeleteScramCredential):
        p = Packer(COMMAND_VERSION, DELETE_SCRAM_CREDENTIAL)
        p.text(command.user)
        p.i32(command.mechanism)
        return p
    if isinstance(command, SetScramCredential):
        p = Packer(COMMAND_VERSION, SET_SCRAM_CREDENTIAL)
        _put_credential(p, command.credential)
    else:
        p = Packer(COMMAND_VERSION, FIRST_SCRAM_CREDENTIALS)
        p.many(command.credentials, lambda credential: _put_credential(p, credential))
    p.blob(command.secret)
    return p


def _put_credential(p: Packer, credential: NewScramCredential) -> None:
    p.text(credential.user)
    p.i32(credential.mechanism)
    p.i32(credential.iterations)
    p.blob(credential.salt)
    p.blob(credential.stored_key)
    p.blob(credential.server_key)


def _credential(u: Unpacker) -> NewScramCredential:
    return NewScramCredential(
        user=u.text(),
        mechanism=u.i32(),
        iterations=u.i32(),
        salt=u.blob(),
        stored_key=u.blob(),
        server_key=u.blob(),
    )


def _departure(command: UnregisterBroker | DecommissionBroker | PauseBalancer) -> Packer:
    if isinstance(command, PauseBalancer):
        p = Packer(COMMAND_VERSION, PAUSE_BALANCER)
        p.u8(command.paused)
        return p
    leaves = isinstance(command, UnregisterBroker)
    p = Packer(COMMAND_VERSION, UNREGISTER_BROKER if leaves else DECOMMISSION_BROKER)
    p.i32(command.broker)
    p.blob(command.replica_uuid)
    if isinstance(command, DecommissionBroker):
        p.u8(command.departing)
    return p


def _version(new: Collection[object]) -> int:
    """Of a command with these fields that releases below `image.MEMBERS_LEVEL` do not know."""
    return PLACED_VERSION if new else COMMAND_VERSION


def has_stream_configs(configs: Iterable[tuple[str, str]]) -> bool:
    """Whether releases below `image.STREAM_CONFIGS_LEVEL` do not know what these configs of a topic mean."""
    return any(name in OF_REDIS for name, _ in configs)


def _create_topic_bytes(command: CreateTopic) -> Packer:
    streams = has_stream_configs(command.configs)
    p = Packer(STREAMS_VERSION if streams else _version(command.placed), CREATE_TOPIC)
    p.text(command.name)
    p.blob(command.topic_id)
    p.i32(command.partitions)
    p.configs(command.configs)
    if streams:
        p.many(command.placed, p.i32s)
    else:
        _put_placed(p, command.placed)
    return p


def _register_broker_bytes(command: RegisterBroker) -> Packer:
    p = Packer(_version(command.rack), REGISTER_BROKER)
    p.i32(command.broker)
    p.blob(command.replica_uuid)
    p.i64(command.incarnation)
    p.many(command.endpoints, p.endpoint)
    p.text(command.admin)
    p.i32(command.feature_max)
    if command.rack:
        p.text(command.rack)
    return p


def _put_placed(p: Packer, placed: Placed) -> None:
    if placed:
        p.many(placed, p.i32s)


def _take_placed(u: Unpacker) -> Placed:
    return u.many(lambda: u.many(lambda: BrokerId(u.i32())))


def _altered(command: AlterTopicConfigs | AlterBrokerConfigs) -> Packer:
    if isinstance(command, AlterTopicConfigs):
        p = Packer(COMMAND_VERSION, ALTER_TOPIC_CONFIGS)
        p.blob(command.topic_id)
    else:
        p = Packer(COMMAND_VERSION, ALTER_BROKER_CONFIGS)
        p.i32(command.broker)
    return p


def _put_seat(p: Packer, seat: RecoveredSeat) -> None:
    p.i32(seat.broker)
    p.many(seat.gone, p.blob)
    p.blob(seat.bound)


def _recover_cluster(u: Unpacker) -> Command:
    def seat() -> RecoveredSeat:
        return RecoveredSeat(broker=BrokerId(u.i32()), gone=u.many(u.blob), bound=u.blob())

    return RecoverCluster(seats=u.many(seat), next_group=u.u32(), next_producer_id=u.i64())


def _form_cluster(u: Unpacker) -> Command:
    return FormCluster(
        cluster_id=u.text(),
        voters=u.many(lambda: BrokerId(u.i32())),
        offsets_partitions=u.i32(),
        offsets_topic_id=u.blob(),
        feature_level=u.i32(),
    )


def _register_broker(u: Unpacker) -> RegisterBroker:
    return RegisterBroker(
        broker=BrokerId(u.i32()),
        replica_uuid=u.blob(),
        incarnation=u.i64(),
        endpoints=u.many(u.endpoint),
        admin=u.text(),
        feature_max=u.i32(),
    )


def _alter_topic_configs(u: Unpacker) -> Command:
    return AlterTopicConfigs(topic_id=u.blob(), expected=u.configs(), configs=u.configs())


def _alter_broker_configs(u: Unpacker) -> Command:
    return AlterBrokerConfigs(broker=BrokerId(u.i32()), expected=u.configs(), configs=u.configs())


def _set_replication_factor(u: Unpacker) -> Command:
    return SetReplicationFactor(factor=u.i32(), topics=u.many(u.blob), every_topic=u.flag())


def _moved(make: type[MovePartition | CompleteMove | CancelMove]) -> Callable[[Unpacker], Command]:
    return lambda u: make(topic_id=u.blob(), partition=u.i32(), voters=u.many(lambda: BrokerId(u.i32())))


def _create_topic(u: Unpacker, *, streams: bool = False) -> CreateTopic:
    command = CreateTopic(name=u.text(), topic_id=u.blob(), partitions=u.i32(), configs=u.configs())
    if has_stream_configs(command.configs) != streams:
        raise Corruption("a CreateTopic of another version than its configs")
    return command


def _add_partitions(u: Unpacker) -> AddPartitions:
    return AddPartitions(topic_id=u.blob(), total=u.i32())


_DECODERS: dict[int, Callable[[Unpacker], Command]] = {
    FORM_CLUSTER: _form_cluster,
    REGISTER_BROKER: _register_broker,
    SET_DRAINING: lambda u: SetDraining(broker=BrokerId(u.i32()), draining=u.flag()),
    CREATE_TOPIC: _create_topic,
    DELETE_TOPIC: lambda u: DeleteTopic(topic_id=u.blob()),
    ADD_PARTITIONS: _add_partitions,
    ALTER_TOPIC_CONFIGS: _alter_topic_configs,
    ALLOCATE_PRODUCER_IDS: lambda u: AllocateProducerIds(broker=BrokerId(u.i32())),
    FINALIZE_FEATURES: lambda u: FinalizeFeatures(feature_level=u.i32()),
    REPLACE_REPLICA: lambda u: ReplaceReplica(broker=BrokerId(u.i32()), gone_uuid=u.blob()),
    MOVE_PARTITION: _moved(MovePartition),
    COMPLETE_MOVE: _moved(CompleteMove),
    CANCEL_MOVE: _moved(CancelMove),
    RECOVER_CLUSTER: _recover_cluster,
    UNREGISTER_BROKER: lambda u: UnregisterBroker(broker=BrokerId(u.i32()), replica_uuid=u.blob()),
    SET_CONTROLLER_VOTERS: lambda u: SetControllerVoters(voters=u.many(lambda: BrokerId(u.i32()))),
    COMPLETE_CONTROLLER_VOTERS: lambda u: CompleteControllerVoters(voters=u.many(lambda: BrokerId(u.i32()))),
    DECOMMISSION_BROKER: lambda u: DecommissionBroker(
        broker=BrokerId(u.i32()), replica_uuid=u.blob(), departing=u.flag()
    ),
    PAUSE_BALANCER: lambda u: PauseBalancer(paused=u.flag()),
    ALTER_BROKER_CONFIGS: _alter_broker_configs,
    SET_REPLICATION_FACTOR: _set_replication_factor,
    SET_SCRAM_CREDENTIAL: lambda u: SetScramCredential(credential=_credential(u), secret=u.blob()),
    DELETE_SCRAM_CREDENTIAL: lambda u: DeleteScramCredential(user=u.text(), mechanism=u.i32()),
    FIRST_SCRAM_CREDENTIALS: lambda u: FirstScramCredentials(
        credentials=u.many(lambda: _credential(u)), secret=u.blob()
    ),
    ADD_ACLS: lambda u: AddAcls(acls=take_acls(u)),
    REMOVE_ACLS: lambda u: RemoveAcls(acls=take_acls(u)),
    ALTER_QUOTAS: lambda u: AlterQuotas(changes=take_quota_changes(u)),
    CREATE_TRANSACTION_LOG: lambda u: CreateTransactionLog(
        topic_id=u.blob(), partitions=u.i32(), placed=_take_placed(u)
    ),
}
_PLACED_DECODERS: dict[int, Callable[[Unpacker], Command]] = {
    REGISTER_BROKER: lambda u: replace(_register_broker(u), rack=_said(u.text())),
    CREATE_TOPIC: lambda u: replace(_create_topic(u), placed=_said(_take_placed(u))),
    ADD_PARTITIONS: lambda u: replace(_add_partitions(u), placed=_said(_take_placed(u))),
}
"""Kinds of version 2."""


_STREAMS_DECODERS: dict[int, Callable[[Unpacker], Command]] = {
    CREATE_TOPIC: lambda u: replace(_create_topic(u, streams=True), placed=_take_placed(u)),
}
"""Kinds of version 3."""
_BY_VERSION = {COMMAND_VERSION: _DECODERS, PLACED_VERSION: _PLACED_DECODERS, STREAMS_VERSION: _STREAMS_DECODERS}


def _said(new: S) -> S:
    """What makes a command one of version 2. Raises `Corruption` if it is missing: that would be a second spelling."""
    if not new:
        raise Corruption(f"a controller command of version {PLACED_VERSION} that says nothing new")
    return new


def decode_command(data: bytes) -> Command:
    """The command in `data`. Raises `UnsupportedFormat` for another version or kind, `Corruption` for malformed
    bytes."""
    if len(data) < 2:
        raise Corruption(f"a controller command of {len(data)} bytes")
    if data[0] not in _BY_VERSION:
        raise UnsupportedFormat(f"controller command version {data[0]}; this binary knows up to {STREAMS_VERSION}")
    decode = _BY_VERSION[data[0]].get(data[1])
    if decode is None:
        raise UnsupportedFormat(f"controller command kind {data[1]} of version {data[0]} is unknown to this binary")
    unpacker = Unpacker(data, 2)
    command = decode(unpacker)
    unpacker.end()
    return command


def encode_result(result: CommandResult) -> bytes:
    """The bytes of the answer to a forwarded command."""
    p = Packer(RESULT_VERSION)
    p.i32(result.error)
    p.text(result.message)
    p.i64(result.value)
    return p.done()


def decode_result(data: bytes) -> CommandResult:
    """The result in `data`; errors as `decode_command`."""
    if not data:
        raise Corruption("an empty controller result")
    if data[0] != RESULT_VERSION:
        raise UnsupportedFormat(f"controller result version {data[0]}; this binary knows {RESULT_VERSION}")
    u = Unpacker(data, 1)
    result = CommandResult(error=u.i32(), message=u.text(), value=u.i64())
    u.end()
    return result
