"""COMMAND entries of partitions survive their bytes; foreign bytes are refused, never guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.topics.log_commands import (
    ExpireProducers,
    LogCommand,
    MoveLogStart,
    decode_log_command,
    encode_log_command,
    moved_log_start,
)
from muster_coordinator.topics.partition import TopicPartition

offset = st.integers(0, 2**63 - 1)
any_command = st.one_of(
    st.builds(MoveLogStart, offset),
    st.lists(st.tuples(offset, st.integers(-1, 2**63 - 1)), min_size=1, max_size=5).map(
        lambda producers: ExpireProducers(tuple(producers))
    ),
)


@given(any_command)
def test_every_log_command_survives_its_bytes(command: LogCommand) -> None:
    assert decode_log_command(encode_log_command(command)) == command


@given(any_command, st.data())
def test_a_cut_log_command_is_corruption(command: LogCommand, data: st.DataObject) -> None:
    encoded = encode_log_command(command)
    with pytest.raises(Corruption):
        decode_log_command(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(Corruption):
        decode_log_command(encoded + b"\0")


def test_bytes_of_log_commands_stay_what_they_are() -> None:
    assert encode_log_command(MoveLogStart(258)).hex() == "01010000000000000102"
    assert encode_log_command(ExpireProducers(((1, 2),))).hex() == (
        "010200000001" "0000000000000001" "0000000000000002"
    )  # fmt: skip


@pytest.mark.parametrize("data", [b"\x02\x01" + bytes(8), b"\x01\x04", b"\x00\x00"])
def test_an_unknown_version_or_kind_stops_the_replica(data: bytes) -> None:
    with pytest.raises(UnsupportedFormat):
        TopicPartition().apply_command(data)


def test_a_negative_log_start_is_corruption() -> None:
    with pytest.raises(Corruption):
        decode_log_command(b"\x01\x01" + b"\xff" * 8)


@given(offset, offset, offset)
def test_the_moved_log_start_is_monotone_and_inside_the_log(start: int, end: int, to: int) -> None:
    start = min(start, end)
    moved = moved_log_start(start, end, MoveLogStart(to))
    assert start <= moved <= end
    assert moved == max(start, min(to, end))
