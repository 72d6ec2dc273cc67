"""Topics appear, grow, die and come back under running groups; subscriptions change; protocols roll over."""

import itertools
from collections.abc import Callable

import pytest

from tests.clients.member import Member
from tests.clients.server import Server

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


def test_pattern_subscription_picks_up_a_new_topic(server: Server, member: Callable[..., Member], client: str) -> None:
    stem, group = server.unique("pat"), server.unique("g")
    server.create(f"{stem}-a", 1)
    one = member(client, group=group, pattern=f"^{stem}-.*")
    one.wait_owns(1, 60)
    server.create(f"{stem}-b", 2)
    assert one.wait_owns(3, 60) == {(f"{stem}-a", 0), (f"{stem}-b", 0), (f"{stem}-b", 1)}


def test_added_partitions_are_assigned(server: Server, member: Callable[..., Member], client: str) -> None:
    topic, group = server.create(server.unique("grow"), 2), server.unique("g")
    one = member(client, group=group, topics=[topic])
    one.wait_owns(2, 60)
    server.grow(topic, 5)
    one.wait_owns(5, 60)
    server.fill(topic, 5, 2)
    one.wait("records of the new partitions", lambda m: {r[1] for r in m.records} == set(range(5)))


def test_recreated_topic_starts_anew(server: Server, member: Callable[..., Member], client: str) -> None:
    """The offsets committed under the old topic id do not haunt the new topic."""
    topic, group = server.create(server.unique("again"), 1), server.unique("g")
    server.fill(topic, 1, 10)
    one = member(client, group=group, topics=[topic])
    one.wait("the old records", lambda m: len(m.records) == 10, 60)
    assert one.commit()["e"] == "committed"
    one.leave()
    server.delete(topic)
    server.create(topic, 1)
    server.fill(topic, 1, 3, start=100)
    two = member(client, group=group, topics=[topic])
    two.wait("the new records from the start", lambda m: [r[4] for r in m.records] == ["0:100", "0:101", "0:102"], 60)


def test_roll_between_two_topic_lists(server: Server, member: Callable[..., Member], client: str) -> None:
    first_topic, second_topic = server.create(server.unique("roll-a"), 2), server.create(server.unique("roll-b"), 2)
    group = server.unique("g")
    old = [member(client, group=group, topics=[first_topic]) for _ in range(2)]
    old[0].wait("one each", lambda _: all(len(m.assigned) == 1 for m in old), 60)
    new = []
    for leaving in old:
        new.append(member(client, group=group, topics=[first_topic, second_topic]))
        leaving.leave()
    everything = {(t, p) for t in (first_topic, second_topic) for p in range(2)}
    new[0].wait("both lists", lambda _: new[0].assigned | new[1].assigned == everything, 60)
    assert not new[0].assigned & new[1].assigned


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", pytest.param("java", marks=pytest.mark.java)])
def test_cooperative_rebalance_does_not_stop_partitions_that_stay(
    server: Server, member: Callable[..., Member], client: str
) -> None:
    topic, group = server.create(server.unique("coop"), 4), server.unique("g")
    settings = {"group": group, "topics": [topic], "assignors": ["cooperative-sticky"]}
    with server.trickle(topic, 4):
        first = member(client, **settings)
        first.wait_owns(4, 60)
        first.wait("a steady stream", lambda m: len(m.records) > 40)
        second = member(client, **settings)
        first.wait("two each", lambda _: len(first.assigned) == len(second.assigned) == 2, 60)
        second.wait("the moved partitions flow", lambda m: len(m.records) > 20)
    kept = set(first.assigned)
    revoked = {tuple(tp) for e in first.events if e["e"] in ("revoked", "lost") for tp in e["tps"]}
    assert not revoked & kept, "a partition that stays was revoked in between"
    for partition in kept:
        times = [at for r, at in zip(first.records, first.record_times, strict=True) if (r[0], r[1]) == partition]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert max(gaps) < 1.5, f"{partition} stood still for {max(gaps):.2f} s"


@pytest.mark.java
def test_rolling_switch_from_eager_to_cooperative(server: Server, member: Callable[..., Member]) -> None:
    """KIP-429's two rolls: range → [cooperative-sticky, range] → cooperative-sticky; nobody is ever refused."""
    topic, group = server.create(server.unique("switch"), 4), server.unique("g")
    lists = (["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"])
    running = [member("java", group=group, topics=[topic], assignors=lists[0]) for _ in range(2)]
    for names in lists[1:]:
        for place in range(2):
            running[place].leave()
            running[place] = member("java", group=group, topics=[topic], assignors=names)
            a, b = running
            a.wait("two each", lambda _, a=a, b=b: len(a.assigned) == len(b.assigned) == 2, 60)  # type: ignore[misc]
    assert not [e for m in running for e in m.events if e["e"] == "error"]


def test_lost_partitions_are_told_as_lost(server: Server, member: Callable[..., Member]) -> None:
    """A cooperative member that slept through its session has lost its partitions; it may not commit them."""
    topic, group = server.create(server.unique("lost"), 2), server.unique("g")
    settings = {"group": group, "topics": [topic], "assignors": ["cooperative-sticky"]}
    first = member("librdkafka", **settings)
    first.wait_owns(2, 60)
    first.freeze()
    second = member("librdkafka", **settings)
    second.wait_owns(2, 60)
    first.thaw()
    first.wait_event("lost", 40)
