"""Groups that are not consumers: any protocol type, opaque bytes, plans that no assignor would make."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.clients.server import Server
from tests.cluster import wait_until
from tests.raw_group import NONE, REBALANCE, RawMember

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


@contextmanager
def disconnecting(*members: RawMember) -> Iterator[None]:
    try:
        yield
    finally:
        for one in members:
            one.drop_connection()


def join_together(*members: RawMember) -> RawMember:
    """All join at once; returns the leader. Nobody has synced yet."""
    threads = [threading.Thread(target=one.join) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    leaders = [one for one in members if one.is_leader]
    assert len(leaders) == 1
    assert len({one.generation for one in members}) == 1
    return leaders[0]


def sync_together(leader: RawMember, members: tuple[RawMember, ...], plan: dict[str, bytes]) -> None:
    threads = [threading.Thread(target=one.sync, args=(plan if one is leader else None,)) for one in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_three_workers_of_a_connect_like_protocol(server: Server) -> None:
    group = server.unique("connect")
    protocols = (("sessioned", b"\x00\x01url-a"), ("compatible", b"\x00\x00url"))
    workers = tuple(RawMember(server.bootstrap, group, protocols=protocols) for _ in range(3))
    with disconnecting(*workers):
        leader = join_together(*workers)
        assert leader.protocol == "sessioned"
        assert leader.members == {one.member: b"\x00\x01url-a" for one in workers}
        assert all(not one.members for one in workers if one is not leader), "followers get no member list"
        plan = {one.member: bytes([n]) * (n + 1) for n, one in enumerate(workers)}
        sync_together(leader, workers, plan)
        assert [one.assignment for one in workers] == [b"\x00", b"\x01\x01", b"\x02\x02\x02"]
        assert [one.heartbeat() for one in workers] == [NONE] * 3
        generation = leader.generation

        workers[2].leave()
        stayed = workers[:2]
        wait_until("the others are told", lambda: all(one.heartbeat() == REBALANCE for one in stayed), 10)
        leader = join_together(*stayed)
        assert leader.generation == generation + 1
        assert set(leader.members) == {one.member for one in stayed}
        sync_together(leader, stayed, {one.member: b"all" for one in stayed})
        assert [one.assignment for one in stayed] == [b"all", b"all"], "one plan for two members passes through"


def test_single_writer_group_hands_over_when_the_writer_leaves(server: Server) -> None:
    """Like a schema registry's election: the leader gets the role, everybody gets the same bytes."""
    group = server.unique("writer")
    first, second = (
        RawMember(server.bootstrap, group, protocol_type="sr", protocols=(("v0", name),)) for name in (b"one", b"two")
    )
    with disconnecting(first, second):
        leader = join_together(first, second)
        other = second if leader is first else first
        sync_together(leader, (first, second), {m: leader.member.encode() for m in leader.members})
        assert first.assignment == second.assignment == leader.member.encode()
        leader.leave()
        wait_until("the other is told", lambda: other.heartbeat() == REBALANCE, 10)
        other.join()
        assert other.is_leader
        other.sync({other.member: other.member.encode()})
        assert other.assignment == other.member.encode()


def test_another_protocol_type_is_refused_while_the_group_has_members(server: Server) -> None:
    group = server.unique("typed")
    owner = RawMember(server.bootstrap, group, protocol_type="connect")
    stranger = RawMember(server.bootstrap, group, protocol_type="consumer")
    with disconnecting(owner, stranger):
        owner.join()
        owner.sync({owner.member: b"x"})
        assert int(stranger.join().error_code) == 23
        assert owner.heartbeat() == NONE
