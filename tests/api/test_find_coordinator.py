"""FindCoordinator (protocol notes 2.2; decisions 12, 18)."""

import pytest
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, broker
from tests.api.kafka_client import KafkaClient, code

GROUP = "test"
"""Java's hash puts it into partition 2 of 4: Raft group 3, led by broker 2."""
RAFT_GROUP = 3


def find(client: KafkaClient, version: int = 4, *keys: str) -> list[tuple[int, int, str, int]]:
    answer = client.ask(Api.FIND_COORDINATOR, version, key=GROUP, coordinator_keys=keys or (GROUP,))
    found = answer.coordinators if version >= 4 else (answer,)
    return [(code(one.error_code), one.node_id, one.host, one.port) for one in found]


@pytest.mark.parametrize("version", range(7))
def test_the_leader_of_the_groups_partition_is_its_coordinator(version: int) -> None:
    assert find(KafkaClient(FakeSurface()), version) == [(0, 2, "plaintext-2", 9092)]


def test_the_address_is_that_of_the_listener_that_asked() -> None:
    assert find(KafkaClient(FakeSurface(), listener="EXTERNAL")) == [(0, 2, "external-2", 9093)]


def test_every_key_is_resolved_on_its_own_and_in_order() -> None:
    surface = FakeSurface()
    client = KafkaClient(surface)
    answer = client.ask(Api.FIND_COORDINATOR, 6, coordinator_keys=["grp", GROUP, "a"])
    assert [(c.key, c.node_id) for c in answer.coordinators] == [("grp", 1), (GROUP, 2), ("a", 1)]


def test_an_empty_list_of_keys_is_answered_with_an_empty_list() -> None:
    assert KafkaClient(FakeSurface()).ask(Api.FIND_COORDINATOR, 4, coordinator_keys=[]).coordinators == ()


def test_without_a_leader_the_answer_waits_for_one() -> None:
    surface = FakeSurface()
    surface.elect(RAFT_GROUP, 0, 9)
    surface.leaders[RAFT_GROUP] = surface.leaders[RAFT_GROUP]._replace(leader=None)
    client = KafkaClient(surface)
    client.send(Api.FIND_COORDINATOR, 3, key=GROUP)
    surface.fake_loop.run(200)
    assert client.receive() == []
    surface.elect(RAFT_GROUP, 1, 10)
    (answer,) = client.receive()
    assert (code(answer.error_code), answer.node_id) == (0, 1)


def test_after_250_ms_without_a_leader_it_says_15() -> None:
    surface = FakeSurface()
    surface.leaders[RAFT_GROUP] = surface.leaders[RAFT_GROUP]._replace(leader=None)
    client = KafkaClient(surface)
    client.send(Api.FIND_COORDINATOR, 3, key=GROUP)
    surface.fake_loop.run(249)
    assert client.receive() == []
    surface.fake_loop.run(1)
    (answer,) = client.receive()
    assert (code(answer.error_code), answer.node_id, answer.host, answer.port) == (15, -1, "", -1)
    assert answer.error_message


def after_waiting(surface: FakeSurface) -> tuple[int, int]:
    client = KafkaClient(surface)
    client.send(Api.FIND_COORDINATOR, 3, key=GROUP)
    surface.fake_loop.run(249)
    assert client.receive() == [], "a leader that can be used may still come"
    surface.fake_loop.run(1)
    (answer,) = client.receive()
    return code(answer.error_code), answer.node_id


def test_a_leader_that_is_not_alive_is_none() -> None:
    surface = FakeSurface()
    surface.dead.add(2)
    assert after_waiting(surface) == (15, -1)


def test_right_after_a_crash_the_next_leader_is_waited_for() -> None:
    """The dead one is still known while its link is given up; 15 would cost librdkafka its one-second retry."""
    surface = FakeSurface()
    surface.dead.add(2)
    client = KafkaClient(surface)
    client.send(Api.FIND_COORDINATOR, 3, key=GROUP)
    surface.fake_loop.run(200)
    assert client.receive() == []
    surface.elect(RAFT_GROUP, 1, 10)
    surface.fake_loop.run(20)
    (answer,) = client.receive()
    assert (code(answer.error_code), answer.node_id) == (0, 1)


def test_a_leader_without_the_listener_is_none() -> None:
    surface = FakeSurface()
    surface.brokers[2] = broker(2, listeners=("EXTERNAL",))
    assert after_waiting(surface) == (15, -1)


@pytest.mark.parametrize(("key_type", "expected"), [(1, None), (2, 42), (9, 42), (-1, 42)])
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_transactions_get_a_fatal_code_and_words_and_other_types_42(
    version: int, key_type: int, expected: int | None
) -> None:
    """53 is the one code on which librdkafka gives up, which asks in version 2; 35 says to the others what it is."""
    expected = expected or (35 if version >= 4 else 53)
    client = KafkaClient(FakeSurface())
    answer = client.ask(Api.FIND_COORDINATOR, version, key="t", coordinator_keys=["t"], key_type=key_type)
    found = answer.coordinators[0] if version >= 4 else answer
    assert code(found.error_code) == expected
    if key_type == 1:
        assert "transactions are not supported" in found.error_message


def test_moved_groups_are_found_where_the_routing_says() -> None:
    from dataclasses import replace

    surface = FakeSurface()
    image = surface.image()
    assert image is not None
    moved = replace(image, routing=replace(image.routing, overrides=((GROUP, 1),)))
    surface.image = lambda: moved  # type: ignore[method-assign]
    assert find(KafkaClient(surface))[0][:2] == (0, 1)
