"""Offsets in open transactions: protocol notes 4.4, invariant O13. They arrive through the log only, for now."""

from muster_coordinator.groups.requests import OffsetDelete, OffsetFetch
from muster_coordinator.records.keys import encode_offset_key
from muster_coordinator.records.offsets_log import encode_offset_value

from tests.groups.host import WALL, Host, commit, delete, fetch, stable


def pend(host: Host, producer: int, offset: int, partition: int = 0, group: str = "g") -> None:
    record = (encode_offset_key(group, "t", partition), encode_offset_value(offset, -1, "", WALL))
    host.apply_records(record, producer_id=producer)


def test_pending_offset_is_not_committed_until_its_marker():
    host = Host()
    host.ask(commit(offset=1))
    pend(host, 7, 2)
    assert fetch(host).offset == 1
    host.end_transaction(7, commit=True)
    assert fetch(host).offset == 2
    host.check_replicas()


def test_abort_drops_it():
    host = Host()
    pend(host, 7, 2)
    host.end_transaction(7, commit=False)
    assert fetch(host).offset == -1
    assert not host.leader._core.state.has_group("g")


def test_stable_fetch_answers_88_also_without_a_committed_value():
    host = Host()
    pend(host, 7, 2)
    found = fetch(host, stable=True)
    assert (found.error, found.offset, found.metadata) == (88, -1, "")
    assert fetch(host, partition=1, stable=True).error == 0
    assert fetch(host).error == 0


def test_stable_fetch_of_everything_lists_committed_partitions_only():
    host = Host()
    host.ask(commit(offset=1))
    pend(host, 7, 2, partition=0)
    pend(host, 7, 2, partition=1)
    answer = host.ask(OffsetFetch("g", None, True))
    assert [(t, [(p.partition, p.error) for p in found]) for t, found in answer.topics] == [("t", [(0, 88)])]


def test_later_value_of_the_same_producer_replaces_the_earlier():
    host = Host()
    pend(host, 7, 2)
    pend(host, 7, 3)
    host.end_transaction(7, commit=True)
    assert fetch(host).offset == 3


def test_commit_marker_never_overwrites_a_later_plain_commit():
    host = Host()
    pend(host, 7, 2)
    host.ask(commit(offset=5))
    host.end_transaction(7, commit=True)
    assert fetch(host).offset == 5


def test_two_producers_on_one_partition_the_later_record_wins():
    for first, second in ((7, 8), (8, 7)):
        host = Host()
        pend(host, 7, 70)
        pend(host, 8, 80)
        host.end_transaction(first, commit=True)
        assert fetch(host, stable=True).error == 88
        host.end_transaction(second, commit=True)
        assert fetch(host, stable=True).offset == 80


def test_marker_of_an_unknown_producer_is_ignored():
    host = Host()
    host.end_transaction(99, commit=True)
    host.check_replicas()


def test_tombstone_removes_committed_and_every_pending_value():
    host = Host()
    host.ask(commit(offset=1))
    pend(host, 7, 2)
    pend(host, 8, 3)
    answer = host.ask(OffsetDelete("g", (("t", (0,)),)))
    assert answer.topics == (("t", ((0, 0),)),)
    for producer in (7, 8):
        host.end_transaction(producer, commit=True)
    assert fetch(host).offset == -1


def test_delete_group_removes_partitions_that_are_only_pending():
    host = Host()
    host.ask(commit(offset=1))
    pend(host, 7, 2, partition=5)
    assert delete(host) == 0
    host.end_transaction(7, commit=True)
    assert fetch(host, partition=5).offset == -1
    assert not host.leader._core.state.has_group("g")


def test_open_transactions_are_part_of_the_checkpoint():
    host = Host()
    pend(host, 7, 2)
    pend(host, 7, 3, group="h")
    pend(host, 8, 4, partition=1)
    host.check_replicas()
    assert host.leader.first_open_offset() == 0
    body = host.leader.image().encode()
    host.crash()
    host.followers[0].restore(body)
    host.end_transaction(7, commit=True)
    host.end_transaction(8, commit=False)
    assert fetch(host).offset == 2
    assert fetch(host, "h").offset == 3
    assert host.leader.first_open_offset() == -1
    host.check_replicas()


def test_classic_group_keeps_its_transactional_offsets():
    host = Host()
    stable(host, 1)
    pend(host, 7, 2)
    host.end_transaction(7, commit=True)
    assert fetch(host).offset == 2
