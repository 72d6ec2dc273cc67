"""FindCoordinator (protocol notes 2.2; decisions 12, 18)."""

import pytest
from muster_coordinator.api.authorize import Operation, Resource
from muster_coordinator.api.limits import HASHED_CHARS_IN_A_TURN_MAX, PARTS_IN_A_TURN_MAX
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import OFFSETS_PARTITIONS, FakeSurface, broker
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
def test_transactions_get_a_fatal_code_below_their_level_and_words_and_other_types_42(
    version: int, key_type: int, expected: int | None
) -> None:
    """53 is the one code on which librdkafka gives up, which asks in version 2; 35 says to the others what it is."""
    expected = expected or (35 if version >= 4 else 53)
    surface = FakeSurface()
    surface.feature_level = MEMBERS_LEVEL - 1
    client = KafkaClient(surface)
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


MANY = [f"group-{n}" for n in range(2 * PARTS_IN_A_TURN_MAX + 1)]
"""Keys for three turns, in all partitions."""


class Turns:
    """Counts the keys that are authorised in each turn of the loop; `denied` ones are not allowed."""

    def __init__(self, surface: FakeSurface, denied: str = "") -> None:
        self.surface = surface
        self.denied = denied
        self.client = KafkaClient(surface, authorize=self.authorize)
        self.counts = [0]

    def authorize(self, _context: RequestContext, _operation: Operation, resource: Resource) -> bool:
        self.counts[-1] += 1
        return resource.name != self.denied

    def send(self, keys: list[str]) -> None:
        self.client.send(Api.FIND_COORDINATOR, 6, coordinator_keys=keys)

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.counts.append(0)
            self.surface.fake_loop.step()

    def run_without_time(self) -> None:
        """All turns up to the next timer."""
        now_ms = self.surface.fake_loop.now_ms
        while self.surface.fake_loop.due(now_ms):
            self.run(1)

    def answer(self) -> list[tuple[str, int, int]]:
        (answer,) = self.client.receive()
        return [(one.key, code(one.error_code), one.node_id) for one in answer.coordinators]


def test_many_keys_leave_the_loop_its_turns_and_ask_once_for_each_partition() -> None:
    """180,000 keys in 986 KB held the loop for 1.8 s, longer than an election waits."""
    surface = FakeSurface()
    turns = Turns(surface, denied=MANY[7])
    turns.send(MANY)
    turns.run_without_time()
    answer = turns.answer()
    assert [count for count in turns.counts if count] == [PARTS_IN_A_TURN_MAX, PARTS_IN_A_TURN_MAX, 1]
    assert surface.lookups.count("leadership") == OFFSETS_PARTITIONS
    one_by_one = Turns(FakeSurface(), denied=MANY[7])
    for key, said in zip(MANY, answer, strict=True):
        one_by_one.send([key])
        assert one_by_one.answer() == [said]
    assert answer[7] == (MANY[7], 30, -1)


def many_without_leader() -> tuple[FakeSurface, Turns]:
    """All keys of a large request are hashed, and no leader of theirs is known."""
    surface = FakeSurface()
    for group in range(1, 1 + OFFSETS_PARTITIONS):
        surface.leaders[group] = surface.leaders[group]._replace(leader=None)
    turns = Turns(surface)
    turns.send(MANY)
    turns.run_without_time()
    return surface, turns


def test_the_answer_for_many_keys_is_made_in_turns() -> None:
    surface, turns = many_without_leader()
    for group in range(1, 1 + OFFSETS_PARTITIONS):
        surface.elect(group, 1, 10)
    assert turns.client.receive() == []
    turns.run(1)
    assert turns.client.receive() == []
    turns.run(1)
    assert turns.answer() == [(key, 0, 1) for key in MANY]


def test_many_keys_of_partitions_without_leader_wait_once_for_each_and_at_the_same_time() -> None:
    surface, turns = many_without_leader()
    assert len(surface.waiting_for_leader) == surface.fake_loop.pending == OFFSETS_PARTITIONS
    surface.fake_loop.run(200)
    surface.elect(RAFT_GROUP, 0, 10)
    surface.fake_loop.run(49)
    assert turns.client.receive() == []
    surface.fake_loop.run(1)
    answer = turns.answer()
    assert [key for key, *_ in answer] == MANY
    assert {(code, node) for _, code, node in answer} == {(15, -1), (0, 0)}


def test_many_keys_before_the_cluster_is_formed_are_looked_up_in_turns_when_the_time_is_over() -> None:
    surface = FakeSurface()
    surface.formed = False
    turns = Turns(surface, denied=MANY[7])
    turns.send(MANY)
    turns.run_without_time()
    assert max(turns.counts) == PARTS_IN_A_TURN_MAX
    surface.fake_loop.run(249)
    surface.formed = True
    assert turns.client.receive() == []
    surface.lookups.clear()
    surface.fake_loop.run(1)
    answer = turns.answer()
    assert [code for _, code, _ in answer] == [30 if key == MANY[7] else 0 for key in MANY]
    assert surface.lookups.count("leadership") == OFFSETS_PARTITIONS


def test_before_the_cluster_is_formed_the_answer_is_15_after_250_ms() -> None:
    surface = FakeSurface()
    surface.formed = False
    assert after_waiting(surface) == (15, -1)


def test_long_keys_leave_the_loop_its_turns() -> None:
    """The hash visits each character, and a request has room for 250 keys of 32,767."""
    keys = [f"{n:02}" + "x" * 32_765 for n in range(12)]
    turns = Turns(FakeSurface())
    turns.send(keys)
    turns.run_without_time()
    at_most = -(-HASHED_CHARS_IN_A_TURN_MAX // 32_767)
    assert [count for count in turns.counts if count] == [at_most] * (12 // at_most)
    assert [key for key, *_ in turns.answer()] == keys
