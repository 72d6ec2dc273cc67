"""Commands and results survive their bytes; foreign bytes are refused, never guessed."""

import dataclasses
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.controller import codec, commands
from muster_coordinator.controller.codec import decode_command, decode_result, encode_command, encode_result
from muster_coordinator.controller.commands import (
    AddPartitions,
    Command,
    CommandResult,
    NewScramCredential,
    QuotaChange,
    RecoverCluster,
    RecoveredSeat,
    ReplaceReplica,
    SetDraining,
)
from muster_coordinator.controller.image import Endpoint
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.ids import BrokerId
from muster_coordinator.security.acl import Acl

from tests.controller.cluster_commands import create, form, register

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(codec="utf-8"), max_size=12)
blob = st.binary(max_size=20)
names = text | st.sampled_from(["redis.stream", "topic.store"])
configs = st.lists(st.tuples(names, text), max_size=3).map(tuple)
endpoints = st.lists(st.builds(Endpoint, listener=text, host=text, port=i32), max_size=2).map(tuple)
broker = i32.map(BrokerId)
credential = st.builds(
    NewScramCredential, user=text, mechanism=i32, iterations=i32, salt=blob, stored_key=blob, server_key=blob
)

u8 = st.integers(0, 255)
acls = st.lists(st.builds(Acl, u8, text, u8, text, text, u8, u8), max_size=3).map(tuple)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
entities = st.lists(st.tuples(text, text), max_size=2).map(tuple)
changes = st.lists(st.builds(QuotaChange, entity=entities, key=text, value=numbers), max_size=3).map(tuple)

BY_TYPE = {
    "str": text,
    "bytes": blob,
    "bool": st.booleans(),
    "BrokerId": broker,
}
BY_NAME = {
    "voters": st.lists(broker, max_size=4).map(tuple),
    "endpoints": endpoints,
    "configs": configs,
    "expected": configs,
    "incarnation": i64,
    "seats": st.lists(
        st.builds(RecoveredSeat, broker=broker, gone=st.lists(blob, max_size=3).map(tuple), bound=blob), max_size=3
    ).map(tuple),
    "next_group": st.integers(0, 2**32 - 1),
    "next_producer_id": i64,
    "credential": credential,
    "credentials": st.lists(credential, max_size=3).map(tuple),
    "acls": acls,
    "changes": changes,
    "placed": st.lists(st.lists(broker, max_size=4).map(tuple), max_size=3).map(tuple),
    "topics": st.lists(blob, max_size=3).map(tuple),
}


def commands_of(kind: type) -> st.SearchStrategy[Command]:
    drawn = {f.name: BY_NAME[f.name] if f.name in BY_NAME else BY_TYPE.get(f.type.__name__, i32) for f in fields(kind)}
    return st.builds(kind, **drawn)


any_command = st.one_of([commands_of(kind) for kind in commands.Command.__args__])


@given(any_command)
def test_every_command_survives_its_bytes(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


@given(st.builds(CommandResult, i32, text, i64))
def test_every_result_survives_its_bytes(result: CommandResult) -> None:
    assert decode_result(encode_result(result)) == result


@given(any_command, st.data())
def test_a_cut_command_is_corruption_and_nothing_else(command: Command, data: st.DataObject) -> None:
    encoded = encode_command(command)
    with pytest.raises(Corruption):
        decode_command(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(Corruption):
        decode_command(encoded + b"\0")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_command_or_a_typed_error(data: bytes) -> None:
    for prefix in (b"", *(bytes([version, kind]) for version in (1, 2, 3) for kind in range(30))):
        try:
            command = decode_command(prefix + data)
        except (Corruption, UnsupportedFormat):
            continue
        assert encode_command(command) == prefix + data, "two spellings of one command would part state hashes"


def test_an_unknown_version_is_refused_as_unsupported() -> None:
    data = encode_command(SetDraining(broker=BrokerId(1), draining=True))
    with pytest.raises(UnsupportedFormat, match="version 2"):
        decode_command(b"\x02" + data[1:])
    with pytest.raises(UnsupportedFormat, match="version 4"):
        decode_command(b"\x04" + data[1:])
    with pytest.raises(UnsupportedFormat, match="version 9"):
        decode_result(b"\x09" + encode_result(CommandResult(0))[1:])


def test_an_unknown_kind_is_refused_as_unsupported() -> None:
    with pytest.raises(UnsupportedFormat, match="kind 200"):
        decode_command(b"\x01\xc8")


def test_a_count_larger_than_the_bytes_costs_no_memory() -> None:
    head = encode_command(form())[: 2 + 4 + 22]
    with pytest.raises(Corruption, match="cannot fit"):
        decode_command(head + b"\xff\xff\xff\xff")


def test_bytes_of_version_1_stay_what_they_are() -> None:
    """Golden: a change here needs COMMAND_VERSION 2 and a finalised feature level."""
    assert encode_command(create("ab", n=7, partitions=3, configs=(("retention.ms", "5"),))).hex() == (
        "0104000000026162000000100000000000000000000000000000000700000003000000010000000c726574656e74696f6e2e6d730000000135"
    )
    assert encode_command(register(1)).hex() == (
        "0102000000010000001002020202020202020202020202020202000000000000000100000001"
        "00000009504c41494e54455854000000096c6f63616c686f7374000023850000000e6c6f63616c686f73743a3830383200000001"
    )
    gone = ReplaceReplica(broker=BrokerId(2), gone_uuid=b"z" * 16)
    assert encode_command(gone).hex() == "010a00000002000000107a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a"
    seat = RecoveredSeat(broker=BrokerId(1), gone=(b"y" * 16,), bound=bytes(16))
    recovered = RecoverCluster(seats=(seat,), next_group=9, next_producer_id=2000)
    assert encode_command(recovered).hex() == (
        "010d0000000100000001000000010000001079797979797979797979797979797979"
        "0000001000000000000000000000000000000000" + "00000009" + "00000000000007d0"
    )


def test_what_earlier_releases_do_not_know_is_version_2_and_only_that() -> None:
    """Golden, from the fields in their order: name, id, 2 partitions, no configs, then the brokers of each."""
    placed = ((BrokerId(4), BrokerId(0), BrokerId(5)), (BrokerId(1),))
    old = encode_command(create("ab", n=7, partitions=2))
    assert old[0] == 1
    made = encode_command(dataclasses.replace(create("ab", n=7, partitions=2), placed=placed))
    rows = "00000002" + "00000003" + "000000040000000000000005" + "00000001" + "00000001"
    assert made == b"\x02" + old[1:] + bytes.fromhex(rows)
    grown = AddPartitions(topic_id=bytes(16), total=3)
    more = encode_command(dataclasses.replace(grown, placed=placed))
    assert more == b"\x02" + encode_command(grown)[1:] + bytes.fromhex(rows)
    told = encode_command(dataclasses.replace(register(1), rack="z-1"))
    assert told == b"\x02" + encode_command(register(1))[1:] + b"\0\0\0\x03z-1"
    for command in (create("ab"), grown, register(1)):
        with pytest.raises(Corruption, match="nothing new"):
            decode_command(b"\x02" + encode_command(command)[1:] + bytes(4))


def test_a_topic_with_configs_of_streams_is_version_3_and_only_that() -> None:
    """Golden: as version 2, and the list of replicas may be empty."""
    placed = ((BrokerId(4),), (BrokerId(1),))
    row = (("redis.stream", "s"),)
    plain = encode_command(create("ab", n=7, partitions=2))
    made = create("ab", n=7, partitions=2, configs=row)
    said = bytes.fromhex("00000001" + "0000000c") + b"redis.stream" + bytes.fromhex("00000001") + b"s"
    assert encode_command(made) == b"\x03" + plain[1:-4] + said + bytes(4)
    rows = bytes.fromhex("00000002" + "00000001" + "00000004" + "00000001" + "00000001")
    whole = encode_command(dataclasses.replace(made, placed=placed))
    assert whole == b"\x03" + plain[1:-4] + said + rows
    for data in (b"\x01" + plain[1:-4] + said, b"\x02" + whole[1:], b"\x03" + plain[1:] + bytes(4)):
        with pytest.raises(Corruption, match="of another version"):
            decode_command(data)
    for name in ("redis.sequence.bits", "redis.value.field"):
        assert encode_command(create("ab", configs=((name, "1"),)))[0] == 3
    assert encode_command(create("ab", configs=(("topic.store", "redis"),)))[0] == 1


def test_kinds_are_distinct() -> None:
    kinds = [encode_command(c)[1] for c in (form(), register(0), create("a"))]
    assert len(set(kinds)) == 3
    assert sorted(codec._DECODERS) == [*range(1, 21), *range(24, 31), 32]
