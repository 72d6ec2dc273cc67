"""The payload in which a replica tells its peers its bootstrap state (docs/peer-links.md); see `multiraft.payloads`."""

import struct

from muster_coordinator.controller.codec import decode_command, encode_command
from muster_coordinator.controller.commands import RegisterBroker
from muster_coordinator.errors import Corruption, UnsupportedFormat, WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import BROKERS_MAX
from muster_coordinator.replica.bootstrap.formation import BootstrapState, Expectation
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Phase, pack_record, unpack_record
from muster_coordinator.replica.multiraft.payloads import HEAD_BYTES, HEADS, Kind, table

_BOOTSTRAP_STATE = struct.Struct(">i16sBHIHB")


_I32 = struct.Struct(">i")


def encode_bootstrap_state(state: BootstrapState) -> bytes:
    expects = state.expects
    name = expects.cluster_id.encode()
    fixed = _BOOTSTRAP_STATE.pack(
        state.broker,
        state.replica_uuid,
        state.phase,
        len(name),
        expects.offsets_partitions,
        len(expects.voters),
        state.record is not None,
    )
    voters = b"".join(_I32.pack(voter) for voter in expects.voters)
    record = b"" if state.record is None else pack_record(state.record)
    asks = b"" if state.registration is None else encode_command(state.registration)
    return HEADS[Kind.BOOTSTRAP_STATE] + fixed + name + voters + record + asks


def decode_bootstrap_state(payload: bytes) -> BootstrapState:
    try:
        broker, uuid, phase, name_bytes, partitions, voters, has_record = _BOOTSTRAP_STATE.unpack_from(
            payload, HEAD_BYTES
        )
        position = HEAD_BYTES + _BOOTSTRAP_STATE.size
        name = payload[position : position + name_bytes].decode()
        rows, position = table(_I32, payload, position + name_bytes, voters, "bootstrap state")
        record: ClusterRecord | None = None
        if has_record:
            record, position = unpack_record(payload, position)
        told = Phase(phase)
        asks = decode_command(payload[position:]) if position < len(payload) else None
    except (struct.error, UnicodeDecodeError, ValueError, UnsupportedFormat, Corruption) as error:
        raise WireError(f"malformed bootstrap state: {error}") from error
    if record is not None and len(record.seats) > BROKERS_MAX:
        raise WireError(f"a cluster record with {len(record.seats)} seats")
    if asks is not None and (not isinstance(asks, RegisterBroker) or told is not Phase.EMPTY):
        raise WireError("a bootstrap state that asks for something else than to join")
    if (record is None) != (told is Phase.EMPTY):
        raise WireError("a bootstrap state with a phase that does not fit its record")
    expects = Expectation(name, tuple(BrokerId(row[0]) for row in rows), partitions)
    return BootstrapState(BrokerId(broker), uuid, told, expects, record, asks)
