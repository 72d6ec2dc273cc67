"""Members of every client join, leave, die and freeze; the rest of the group takes over, nothing is lost."""

from collections.abc import Callable

import pytest

from tests.clients.member import Member
from tests.clients.server import Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

ASSIGNORS = {
    "librdkafka": ("range", "roundrobin", "cooperative-sticky"),
    "kafka-python": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "aiokafka": ("range", "roundrobin", "sticky"),
    "java": ("range", "roundrobin", "sticky", "cooperative-sticky"),
}
EVERY_ASSIGNOR = [
    pytest.param(client, name, id=f"{client}-{name}", marks=[pytest.mark.java] if client == "java" else [])
    for client, names in ASSIGNORS.items()
    for name in names
]


def shares(*members: Member) -> list[int]:
    return sorted(len(m.assigned) for m in members)


@pytest.mark.parametrize(("client", "assignor"), EVERY_ASSIGNOR)
def test_two_members_share_by_each_assignor_and_the_second_leaves(
    server: Server, member: Callable[..., Member], client: str, assignor: str
) -> None:
    topic, group = server.create(server.unique("share"), 4), server.unique("g")
    server.fill(topic, 4, 5)
    settings = {"group": group, "topics": [topic], "assignors": [assignor]}
    first = member(client, **settings)
    second = member(client, **settings)
    first.wait("two partitions each", lambda _: shares(first, second) == [2, 2], 60)
    assert first.assigned | second.assigned == {(topic, p) for p in range(4)}
    second.wait("second read something", lambda m: m.records)
    second.leave()
    first.wait_owns(4)
    first.wait("all records between them", lambda m: len({r[:3] for r in m.records + second.records}) == 20)


def test_killed_member_is_gone_after_its_session(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("kill"), 4), server.unique("g")
    settings = {"group": group, "topics": [topic]}
    first, second = member(client, **settings), member(client, **settings)
    first.wait("two partitions each", lambda _: shares(first, second) == [2, 2], 60)
    second.kill()
    first.wait_owns(4, 40)


def test_frozen_member_is_fenced_and_comes_back(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("freeze"), 4), server.unique("g")
    server.fill(topic, 4, 3)
    settings = {"group": group, "topics": [topic]}
    first, second = member(client, **settings), member(client, **settings)
    first.wait("two partitions each", lambda _: shares(first, second) == [2, 2], 60)
    second.freeze()
    first.wait_owns(4, 40)
    second.thaw()
    first.wait("shared again", lambda _: shares(first, second) == [2, 2], 60)


def test_static_member_restarts_without_a_rebalance(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("static"), 4), server.unique("g")
    settings = {"group": group, "topics": [topic], "session_ms": 20000}
    first = member(client, instance="one", **settings)
    second = member(client, instance="two", **settings)
    first.wait("two partitions each", lambda _: shares(first, second) == [2, 2], 60)
    owned, told = set(second.assigned), len(first.events)
    generation = server.generation(group)
    second.kill()
    again = member(client, instance="two", **settings)
    again.wait("the same partitions", lambda m: m.assigned == owned, 40)
    assert server.generation(group) == generation
    assert not [e for e in first.events[told:] if e["e"] in ("assigned", "revoked", "lost")], "the other member noticed"


def test_second_holder_of_an_instance_id_fences_the_first(
    server: Server, member: Callable[..., Member], client: str
) -> None:
    topic, group = server.create(server.unique("fence"), 2), server.unique("g")
    settings = {"group": group, "topics": [topic], "instance": "only", "session_ms": 20000}
    old = member(client, **settings)
    old.wait_owns(2, 60)
    new = member(client, **settings)
    new.wait_owns(2, 60)
    if client in ("kafka-python", "aiokafka"):  # these report it by the refused commit alone
        assert old.commit()["e"] == "commit_failed"
    else:

        def told(m: Member) -> bool:
            return any("fenc" in str(e.get("error", "")).lower() for e in m.events)

        old.wait("being told it is fenced", told, 40)


def test_member_that_stops_polling_is_out_and_its_late_commit_refused(
    server: Server, member: Callable[..., Member], client: str
) -> None:
    topic, group = server.create(server.unique("stall"), 2), server.unique("g")
    server.fill(topic, 2, 3)
    settings = {"group": group, "topics": [topic]}
    stalled = member(client, poll_ms=7000, **settings)
    stalled.wait_owns(2, 60)
    stalled.wait("its records", lambda m: len(m.records) == 6)
    stalled.command("stop_polling")
    other = member(client, **settings)
    other.wait_owns(2, 60)
    assert stalled.commit()["e"] == "commit_failed"
    assert set(other.committed((topic, 0), (topic, 1)).values()) == {None}, "nobody has committed"
