"""The admin adapter against a real Muster cluster: status and partitions, drain and back, and 421 followed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from muster_operator.admin.adapter import AdminAdapter
from muster_operator.errors import Refused
from muster_operator.world.cluster import ReplicaView, Seat
from muster_operator.world.views import Unknown

from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    with MusterCluster(tmp_path_factory.mktemp("admin") / "data", partitions=8) as running:
        yield running


def token(cluster: MusterCluster) -> str:
    return (cluster.folder / "admin-token").read_text().strip()


def hosts(cluster: MusterCluster) -> dict[int, str]:
    return {n: f"127.0.0.1:{cluster.port + 300 + n}" for n in range(3)}


def ask(question: Callable[[AdminAdapter], Awaitable[Any]]) -> Any:
    async def scene() -> Any:
        adapter = AdminAdapter()
        try:
            return await question(adapter)
        finally:
            await adapter.close()

    return asyncio.run(scene())


def replica(cluster: MusterCluster, number: int) -> ReplicaView:
    view = ask(lambda it: it.replica(host=hosts(cluster)[number], pod=f"c-{number}", token=token(cluster)))
    assert isinstance(view, ReplicaView), view
    return view


def test_every_group_is_seen_from_its_leader(cluster: MusterCluster) -> None:
    """Three questions, one after the other: a leadership that moves meanwhile is in none of the answers."""

    def seen_whole() -> list[ReplicaView] | None:
        views = [replica(cluster, number) for number in range(3)]
        led = {group.group for one in views for group in one.groups if group.role == "leader"}
        return views if led == {group.group for group in views[0].groups} else None

    views = wait_until("a leader of every group", seen_whole, 30, 0.2)
    assert [one.broker_id for one in views] == [0, 1, 2]
    assert all(one.ready and one.cluster_id == views[0].cluster_id for one in views)
    leading = next(group for one in views for group in one.groups if group.role == "leader")
    assert set(leading.match) == {0, 1, 2}
    assert leading.voters == (0, 1, 2)
    assert {group.log_bytes for one in views for group in one.groups if group.group == 0} == {None}


def test_drain_to_nothing_and_back(cluster: MusterCluster) -> None:
    host = hosts(cluster)[1]
    ask(lambda it: it.drain(host=host, token=token(cluster)))
    wait_until("drained", lambda: replica(cluster, 1).drain_phase == "drained", 30)
    assert replica(cluster, 1).leaderships == 0
    ask(lambda it: it.undrain(host=host, token=token(cluster)))
    wait_until("idle", lambda: replica(cluster, 1).drain_phase == "idle", 30)


def test_an_address_that_another_replica_answers_is_unknown(cluster: MusterCluster) -> None:
    view = ask(lambda it: it.replica(host=hosts(cluster)[0], pod="c-2", token=token(cluster)))
    assert isinstance(view, Unknown)
    assert view.reason == "WrongReplica"


def test_a_wrong_token_is_unknown_and_never_repeated(cluster: MusterCluster) -> None:
    view = ask(lambda it: it.replica(host=hosts(cluster)[0], pod="c-0", token="not-this-one"))
    assert isinstance(view, Unknown)
    assert view.reason == "TokenRefused"
    assert "not-this-one" not in view.message


def test_a_silent_replica_is_unknown(cluster: MusterCluster) -> None:
    view = ask(lambda it: it.replica(host="127.0.0.1:1", pod="c-0", token="t"))
    assert isinstance(view, Unknown)
    assert view.reason == "ReplicaUnreachable"


def test_group_facts_are_found_whoever_is_asked_first(cluster: MusterCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("t", 1, -1)])["t"].result(20)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "facts"})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()
    for first in range(3):
        ordered = dict(sorted(hosts(cluster).items(), key=lambda one: one[0] != first))
        facts = ask(lambda it, known=ordered: it.group_facts(hosts=known, token=token(cluster), group_id="facts"))
        assert not isinstance(facts, Unknown), facts
        assert facts[0] is None, "nobody ever joined"
    nobody = ask(lambda it: it.group_facts(hosts=hosts(cluster), token=token(cluster), group_id="nobody"))
    assert isinstance(nobody, Unknown)
    assert nobody.reason == "GroupNotFound"


def test_a_replica_that_lives_is_not_replaced_wherever_the_leader_is_and_the_coordinators_say_why(
    cluster: MusterCluster,
) -> None:
    """Real words, asked at each of the three first: whoever does not lead names the leader."""
    folder = replica(cluster, 2).folder
    assert folder is not None
    assert replica(cluster, 0).seats[2] == Seat(folder=folder, binding=0)
    for first in range(3):

        def refused(it: AdminAdapter, first: int = first) -> Awaitable[None]:
            return it.replace(hosts=hosts(cluster), token=token(cluster), first=first, broker=2, folder=folder)

        with pytest.raises(Refused, match=r"connected, so it is not lost|feature level") as error:
            ask(refused)
        assert error.value.reason == "ReplicaRefuses"
    assert all(group.bindings == {0: 0, 1: 0, 2: 0} for group in replica(cluster, 0).groups)
