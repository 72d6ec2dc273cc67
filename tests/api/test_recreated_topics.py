"""A topic that is created again never gets its predecessor's offsets, whoever lost the tombstones (decision 27)."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from muster_coordinator.api.limits import OFFSET_FETCH_IMAGES_MAX
from muster_coordinator.errors import Code
from muster_coordinator.wire.versions import Api

from tests.api.fake_surface import FakeSurface, topic
from tests.api.kafka_client import KafkaClient, code
from tests.groups.host import Host

FIRST, SECOND, THIRD = b"\1" * 16, b"\2" * 16, b"\3" * 16
FETCHES, COMMITS = range(1, 11), range(2, 11)


class World:
    """The API over a real shard; topics come and go in the image here."""

    def __init__(self) -> None:
        self.surface = FakeSurface()
        self.host = Host()
        self.surface.on_group = self.host.ask
        self.client = KafkaClient(self.surface)

    def create(self, topic_id: bytes, name: str = "t") -> None:
        self.surface.add_topic(topic(name, 2, topic_id=topic_id))

    def delete(self, name: str = "t", *, remembered: bool = True) -> None:
        """The image has it; no shard wrote a tombstone, as after a refusal and the leader's end."""
        gone = self.surface.topics.pop(name)
        if remembered:
            self.surface.deleted_ids |= {gone.topic_id}

    def commit(self, version: int, offset: int, topic_id: bytes, **more: Any) -> int:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "n"}]
        topics = [{"name": "t", "topic_id": UUID(bytes=topic_id), "partitions": partitions}]
        answer = self.client.ask(
            Api.OFFSET_COMMIT, version, group_id="g", generation_id_or_member_epoch=-1, topics=topics, **more
        )
        return code(answer.topics[0].partitions[0].error_code)

    def fetch(self, version: int, topic_id: bytes, *, everything: bool = False) -> list[tuple[int, int]]:
        """(error, offset) of all that is answered; a group's error stands for its partitions."""
        topics = [{"name": "t", "topic_id": UUID(bytes=topic_id), "partition_indexes": [0]}]
        wanted = None if everything else topics
        if version >= 8:
            answer = self.client.ask(Api.OFFSET_FETCH, version, groups=[{"group_id": "g", "topics": wanted}]).groups[0]
        else:
            answer = self.client.ask(Api.OFFSET_FETCH, version, group_id="g", topics=wanted)
        if version >= 2 and code(answer.error_code):
            return [(code(answer.error_code), -1)]
        return [(code(p.error_code), p.committed_offset) for t in answer.topics for p in t.partitions]


@pytest.mark.parametrize("committed", COMMITS)
def test_after_a_deletion_without_a_tombstone_no_version_is_told_the_predecessors_offset(committed: int) -> None:
    world = World()
    world.create(FIRST)
    assert world.commit(committed, 7, FIRST) == Code.NONE
    assert {tuple(world.fetch(version, FIRST)) for version in FETCHES} == {((0, 7),)}
    world.delete()
    world.create(SECOND)
    assert {tuple(world.fetch(version, SECOND)) for version in FETCHES} == {((0, -1),)}
    assert {tuple(world.fetch(version, SECOND, everything=True)) for version in FETCHES if version >= 2} == {()}
    assert world.surface.image_questions == 0, "a deletion that the image remembers is certain"
    assert world.commit(committed, 3, SECOND) == Code.NONE
    assert {tuple(world.fetch(version, SECOND)) for version in FETCHES} == {((0, 3),)}


def test_a_deletion_that_the_controller_has_forgotten_is_proven_by_a_current_image() -> None:
    world = World()
    world.create(FIRST)
    world.commit(9, 7, FIRST)
    world.delete(remembered=False)
    world.create(SECOND)
    assert world.fetch(9, SECOND) == [(0, -1)]
    assert world.surface.image_questions == 1


@pytest.mark.parametrize("version", FETCHES)
def test_a_late_image_hides_no_offset_of_the_topic_that_it_has_not_heard_of(version: int) -> None:
    world = World()
    world.create(SECOND)
    world.commit(9, 7, SECOND)
    world.surface.topics.pop("t")
    world.create(FIRST)  # leadership came to a replica that is behind the one that took the commit

    def catch_up() -> bool:
        world.delete()
        world.create(SECOND)
        return True

    world.surface.on_image_question = catch_up
    assert world.fetch(version, SECOND) == [(0, 7)]


def never(_: World) -> bool:
    return False


def changing(world: World) -> bool:
    world.delete(remembered=False)
    world.create(bytes([world.surface.image_questions]) * 8 + bytes(8))
    return True


@pytest.mark.parametrize(("question", "asked"), [(never, 1), (changing, OFFSET_FETCH_IMAGES_MAX)])
def test_without_a_proof_the_client_is_told_to_ask_again(question: Callable[[World], bool], asked: int) -> None:
    world = World()
    world.create(THIRD)
    world.commit(9, 7, THIRD)
    world.delete(remembered=False)
    world.create(FIRST)
    world.surface.on_image_question = lambda: question(world)
    for version in (1, 2, 9):
        world.surface.image_questions = 0
        assert world.fetch(version, FIRST) == [(Code.COORDINATOR_NOT_AVAILABLE, -1)]
        assert world.surface.image_questions == asked


def test_an_offset_without_an_id_is_answered_as_before() -> None:
    """A commit that names its own expiry has no room for the id (Kafka's record v1)."""
    world = World()
    world.create(FIRST)
    assert world.commit(4, 7, FIRST, retention_time_ms=3_600_000) == Code.NONE
    world.delete()
    world.create(SECOND)
    assert {tuple(world.fetch(version, SECOND)) for version in FETCHES} == {((0, 7),)}


def test_the_deletion_of_another_topic_takes_nothing() -> None:
    world = World()
    world.create(FIRST)
    world.commit(9, 7, FIRST)
    world.create(THIRD, "u")
    assert world.fetch(9, FIRST) == [(0, 7)]
    world.delete("u")
    assert world.fetch(9, FIRST) == [(0, 7)]
