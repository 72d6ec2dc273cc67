"""Commits of every kind, positions, seeks, simple consumers."""

from collections.abc import Callable

import pytest

from tests.clients.member import Member
from tests.clients.server import Server
from tests.cluster import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


def test_sync_commit_is_where_the_next_member_starts(
    server: Server, member: Callable[..., Member], client: str
) -> None:
    topic, group = server.create(server.unique("sync"), 2), server.unique("g")
    server.fill(topic, 2, 10)
    first = member(client, group=group, topics=[topic])
    first.wait("all records", lambda m: len(m.records) == 20, 60)
    assert first.commit()["e"] == "committed"
    first.leave()
    server.fill(topic, 2, 5, start=10)
    second = member(client, group=group, topics=[topic])
    second.wait("the new records", lambda m: len(m.records) == 10, 60)
    assert {r[2] for r in second.records} == set(range(10, 15))


def test_async_commit_and_commit_on_revoke(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("async"), 2), server.unique("g")
    server.fill(topic, 2, 10)
    first = member(client, group=group, topics=[topic], commit_on_revoke=True)
    first.wait("all records", lambda m: len(m.records) == 20, 60)
    first.ask("commit_async", "committed")
    assert first.committed((topic, 0), (topic, 1)) == {(topic, 0): 10, (topic, 1): 10}
    server.fill(topic, 2, 5, start=10)
    first.wait("the new ones", lambda m: len(m.records) == 30)
    second = member(client, group=group, topics=[topic])
    second.wait_owns(1, 60)
    assert second.committed((topic, 0), (topic, 1)) == {(topic, 0): 15, (topic, 1): 15}, "committed inside revoked"


def test_auto_commit(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("auto"), 1), server.unique("g")
    server.fill(topic, 1, 10)
    first = member(client, group=group, topics=[topic], auto_commit_ms=500)
    first.wait("all records", lambda m: len(m.records) == 10, 60)
    reader = member(client, group=group, assign=[[topic, 0]])
    wait_until("the automatic commit", lambda: reader.committed((topic, 0))[topic, 0] == 10, 20, 0.2)


def test_commit_of_given_offsets_with_metadata_and_seek(
    server: Server, member: Callable[..., Member], client: str
) -> None:
    topic, group = server.create(server.unique("given"), 1), server.unique("g")
    server.fill(topic, 1, 10)
    one = member(client, group=group, topics=[topic])
    one.wait("all records", lambda m: len(m.records) == 10, 60)
    one.ask("commit_offsets", "committed", offsets=[[topic, 0, 4, "here"]])
    answer = one.ask("fetch", "fetched", tps=[[topic, 0]])
    assert answer["offsets"][0][2] == 4
    if client != "aiokafka":  # its committed() returns the number alone
        assert answer["offsets"][0][3] == "here"
    one.command("seek", t=topic, p=0, o=7)
    one.wait("records from 7 again", lambda m: [r[2] for r in m.records[10:]] == [7, 8, 9])


def test_simple_consumer_assigns_itself_and_commits(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("simple"), 2), server.unique("g")
    server.fill(topic, 2, 5)
    first = member(client, group=group, assign=[[topic, 0]])
    first.wait("its partition only", lambda m: len(m.records) == 5, 60)
    assert {r[1] for r in first.records} == {0}
    assert first.commit()["e"] == "committed"
    assert first.committed((topic, 0), (topic, 1)) == {(topic, 0): 5, (topic, 1): None}
