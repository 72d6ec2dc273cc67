"""Checkpoints of a topic partition: everything durable, nothing volatile, equal bytes for equal logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.topics.log_commands import MoveLogStart, encode_log_command
from muster_coordinator.topics.machine import Accepted, Duplicate, TopicMachine
from muster_coordinator.topics.partition import TopicPartition

from tests.topics.batch_bytes import T0, batch, idempotent
from tests.topics.leader import NOW, Leader, replay


def busy() -> Leader:
    leader = Leader()
    for sequence in range(7):
        leader.produce(idempotent(sequence, pid=1))
        leader.produce(idempotent(sequence * 2, pid=2, count=2))
        leader.produce(batch(3))
    leader.command(encode_log_command(MoveLogStart(11)))
    return leader


def restored(leader: Leader) -> TopicPartition:
    twin = TopicPartition()
    twin.restore(leader.partition.image().encode())
    return twin


def test_the_partition_fits_its_contract() -> None:
    machine: TopicMachine = TopicPartition()
    assert machine.log_start_offset() == 0


def test_a_restored_partition_goes_on_like_the_original() -> None:
    leader = busy()
    twin = restored(leader)
    assert twin.state_hash() == leader.partition.state_hash()
    assert (twin.log_start_offset(), twin.next_offset()) == (11, 42)
    assert twin.offer(NOW, idempotent(6, pid=1), configs={}) == Duplicate(36, T0)
    seen = len(leader.log)
    leader.produce(idempotent(7, pid=1))
    replay(leader.log[seen:], twin)
    assert twin.state_hash() == leader.partition.state_hash()


def test_batches_in_flight_are_not_in_the_state() -> None:
    leader = busy()
    before = leader.partition.state_hash()
    leader.accept(idempotent(7, pid=1))
    assert leader.partition.state_hash() == before


def test_restoring_forgets_what_was_in_flight() -> None:
    leader = busy()
    leader.accept(idempotent(7, pid=1))
    leader.partition.restore(leader.partition.image().encode())
    assert isinstance(leader.offer(idempotent(7, pid=1)), Accepted)


def test_a_snapshot_does_not_change_when_the_partition_does() -> None:
    leader = busy()
    snapshot = leader.partition.image()
    before = snapshot.encode()
    leader.produce(idempotent(7, pid=1))
    assert snapshot.encode() == before != leader.partition.image().encode()


def test_a_producer_table_of_a_newer_layout_is_refused() -> None:
    head = bytearray(busy().partition.image().encode().head)
    head[17:19] = b"\x00\x63"
    with pytest.raises(UnsupportedFormat, match="producer table"):
        TopicPartition().restore(CheckpointBody(bytes(head), ()))


def test_a_gap_in_the_offsets_is_our_own_bug() -> None:
    leader = busy()
    with pytest.raises(AssertionError):
        replay(leader.log[1:])


def test_a_partition_checkpoint_of_another_version_is_refused() -> None:
    head = busy().partition.image().encode().head
    with pytest.raises(UnsupportedFormat):
        TopicPartition().restore(CheckpointBody(b"\x09" + head[1:], ()))


@given(st.data())
def test_a_cut_partition_checkpoint_is_corruption(data: st.DataObject) -> None:
    head = busy().partition.image().encode().head
    cut = data.draw(st.integers(0, len(head) - 1))
    for bad in (head[:cut], head + b"\0"):
        with pytest.raises(Corruption):
            TopicPartition().restore(CheckpointBody(bad, ()))
