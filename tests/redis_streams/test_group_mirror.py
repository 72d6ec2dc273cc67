"""Committed offsets are shown in Redis behind the commits, over the whole of `api` on virtual time and a real Redis:
each commit as it is, Redis away or not; deleted groups and offsets are gone; a new coordinator puts right what was
left; what is shown never slows or fails a commit, and no queue grows with the commits."""

from collections.abc import Iterator
from typing import Any

import pytest
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import DeleteGroup
from muster_coordinator.ids import FIRST_OFFSETS_GROUP
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.server import Script, Trouble
from muster_coordinator.replica.partitions.redis_mirror import NOT_SHOWN
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.api.store_contract import Agreeing, Served, one
from tests.made_settings import api_settings
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.world_server import WorldServer
from tests.replica.cluster import SimCluster
from tests.sim.loop import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OFFSETS = Offsets.of_bits(10)
A_ROUND_MS = limits.MIRROR_DELAY_MS + 50


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


class Mirrored(Served):
    """A replica that shows its groups in this Redis."""

    def __init__(self, server: RedisServer, *, mirror: bool = True) -> None:
        self.redis: WorldServer
        server.connect().ask("FLUSHALL")

        def made(world: Any) -> WorldServer:
            self.redis = WorldServer(server, world)
            return self.redis

        super().__init__(TopicsMode.REDIS, streams=made, redis_groups_mirror=mirror)
        self.notices: list[tuple[str, dict[str, Any]]] = []
        self.cluster.notice = lambda what, details, _: self.notices.append((what, dict(details)))

    def commit_of(self, group: str, topic: str, offset: int, partition: int = 0) -> int:
        part = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1}
        part["committed_metadata"] = ""
        answer = self.ask(
            Api.OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None, topics=[{"name": topic, "partitions": [part]}],
        )  # fmt: skip
        return code(answer.topics[0].partitions[0].error_code)

    def delete_group(self, group: str) -> int:
        return code(self.ask(Api.DELETE_GROUPS, 2, groups_names=[group]).results[0].error_code)

    def delete_offset(self, group: str, topic: str) -> int:
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        return code(self.ask(Api.OFFSET_DELETE, 0, group_id=group, topics=topics).error_code)

    def shown(self, topic: str, partition: int = 0) -> dict[str, tuple[str, int | None]]:
        """Group -> (last-delivered-id, lag), by XINFO GROUPS."""
        cli = self.redis.redis.ask
        stream, _ = keys_of("muster", topic, partition)
        if not cli("EXISTS", stream):
            return {}
        found = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in cli("XINFO", "GROUPS", stream)]
        return {each[b"name"].decode(): (each[b"last-delivered-id"].decode(), each[b"lag"]) for each in found}

    def id_of(self, offset: int) -> str:
        return EntryId(offset >> 10, offset & 1023).text

    def calls_of(self, name: str) -> int:
        return self.redis.calls.count(name)

    def restart(self) -> None:
        """The coordinator dies, and the next one leads in a greater term."""
        self.cluster.kill(0)
        node = self.cluster.restart(0)
        self.cluster.wait_ready()
        settings = api_settings(topics_mode=TopicsMode.REDIS, replication_factor=1)
        self.client = KafkaClient(node, dispatcher=Dispatcher(node, settings, verifier=Agreeing()))


@pytest.fixture
def served(server: RedisServer) -> Mirrored:
    return Mirrored(server)


def away(*names: str) -> Any:
    def fate(script: Script) -> Trouble | None:
        return Trouble.AWAY if script.name in names else None

    return fate


def test_each_commit_is_shown_as_it_is(served: Mirrored) -> None:
    name = served.topic()
    offsets = [served.stored(name, one(b"%d" % n)) for n in range(5)]
    assert served.commit_of("g", name, offsets[1] + 1) == 0
    assert served.commit_of("other", name, offsets[4] + 1) == 0
    assert served.shown(name) == {}, "an answer does not wait for it"
    served.world.run_for(A_ROUND_MS)
    assert served.shown(name) == {"g": (served.id_of(offsets[1]), 3), "other": (served.id_of(offsets[4]), 0)}
    assert served.commit_of("g", name, offsets[0]) == 0, "a reset moves it back"
    served.world.run_for(A_ROUND_MS)
    assert served.shown(name)["g"][0] == served.id_of(offsets[0] - 1)
    assert served.notices == []


def test_without_the_setting_nothing_is_shown(server: RedisServer) -> None:
    served = Mirrored(server, mirror=False)
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    assert served.commit_of("g", name, offset + 1) == 0
    served.world.run_for(10 * A_ROUND_MS)
    assert (served.shown(name), served.calls_of("mirror"), served.calls_of("mirrored")) == ({}, 0, 0)


def test_topics_that_are_not_in_redis_are_not_shown_there(served: Mirrored) -> None:
    assert served.create("inside", topic_store="embedded") == 0
    served.when_led("inside", 1)
    assert served.commit_of("g", "inside", 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert served.calls_of("mirror") == 0


def test_what_is_committed_meanwhile_is_one_call(served: Mirrored) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    for n in range(100):
        assert served.commit_of("g", name, offset - 100 + n) == 0
    served.world.run_for(A_ROUND_MS)
    # The commits of this test take longer on virtual time than one delay: a call for each delay, and one behind.
    assert served.calls_of("mirror") <= 3
    assert served.shown(name)["g"][0] == served.id_of(offset - 2)


def test_groups_and_offsets_that_are_deleted_are_shown_no_more(served: Mirrored) -> None:
    name, twin = served.topic(), served.topic()
    for topic in (name, twin):
        offset = served.stored(topic, one(b"v"))
        for group in ("g", "h"):
            assert served.commit_of(group, topic, offset + 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert (set(served.shown(name)), set(served.shown(twin))) == ({"g", "h"}, {"g", "h"})
    assert served.delete_group("g") == 0
    assert served.delete_offset("h", twin) == 0
    served.world.run_for(A_ROUND_MS)
    assert (set(served.shown(name)), set(served.shown(twin))) == ({"h"}, set())
    assert served.delete(name) == 0
    assert served.create(name) == 0
    served.when_led(name, 1)
    served.world.run_for(limits.MIRROR_WALK_MS + 1_000)
    assert served.shown(name) == {}, "the offset is of the topic before"


def test_redis_away_fails_no_commit_and_the_last_ones_are_shown_when_it_is_back(served: Mirrored) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    assert served.commit_of("gone", name, offset + 1) == 0
    served.world.run_for(A_ROUND_MS)
    served.redis.fate = lambda _: Trouble.AWAY
    for n in range(3):
        assert [served.commit_of(f"g{group}", name, offset - 3 + n) for group in range(20)] == [0] * 20
        served.world.run_for(1_000)
    assert served.delete_group("gone") == 0
    served.world.run_for(30_000)
    tries = served.calls_of("mirror")
    assert tries < 100, "it is tried a few at a time, later each time"
    assert set(served.shown(name)) == {"gone"}
    served.redis.fate = lambda _: None
    served.world.run_for(2 * limits.MIRROR_RETRY_MS_MAX)
    assert {group: at for group, (at, _) in served.shown(name).items()} == {
        f"g{group}": served.id_of(offset - 2) for group in range(20)
    }
    assert served.notices == []


def test_an_answer_that_is_lost_is_asked_for_again(served: Mirrored) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    lost = [Trouble.UNKNOWN, Trouble.UNKNOWN]
    served.redis.fate = lambda script: lost.pop() if script.name == "mirror" and lost else None
    assert served.commit_of("g", name, offset + 1) == 0
    served.world.run_for(10_000)
    assert (served.shown(name)["g"][0], lost) == (served.id_of(offset), [])


def test_a_new_coordinator_puts_right_what_was_left(served: Mirrored) -> None:
    """Neither a commit nor a deletion of its predecessor has reached Redis, and Redis lost a group, too."""
    name = served.topic(partitions=2)
    offset = served.stored(name, one(b"v"))
    for group in ("kept", "deleted", "lost"):
        assert served.commit_of(group, name, offset) == 0
    served.world.run_for(A_ROUND_MS)
    served.redis.fate = away("mirror")
    assert served.commit_of("kept", name, offset + 1) == 0
    assert served.commit_of("new", name, offset + 1) == 0
    assert served.delete_group("deleted") == 0
    served.redis.redis.ask("XGROUP", "DESTROY", keys_of("muster", name, 0)[0], "lost")
    assert set(served.shown(name)) == {"kept", "deleted"}
    served.restart()
    served.redis.fate = lambda _: None
    served.world.run_for(5_000)
    assert {group: at for group, (at, _) in served.shown(name).items()} == {
        "kept": served.id_of(offset), "new": served.id_of(offset), "lost": served.id_of(offset - 1)
    }  # fmt: skip
    assert served.shown(name, 1) == {}
    assert served.notices == []


def test_three_replicas_show_the_same_through_two_fail_overs(server: RedisServer) -> None:
    """What a coordinator had not shown when it died is shown by the next; a group that is deleted there, and still
    shown, is taken away by the third."""
    server.connect().ask("FLUSHALL")
    world = World("fail-over")
    cluster = SimCluster(world, replicas=3, partitions=1, redis_groups_mirror=True)
    redis = cluster.streams = WorldServer(server, world)
    cluster.start()

    def ask(broker: int, api: int, version: int, **values: Any) -> Any:
        node = cluster.nodes[broker]
        settings = api_settings(topics_mode=TopicsMode.REDIS, replication_factor=3)
        client = KafkaClient(node, dispatcher=Dispatcher(node, settings, verifier=Agreeing()))
        client.send(api, version, **values)
        (answer,) = world.run_until("an answer", client.receive, 30_000)
        return answer

    def shown() -> dict[str, str]:
        found = redis.redis.ask("XINFO", "GROUPS", "muster:{t:0}")
        return {flat[1].decode(): flat[7].decode() for flat in found}

    made = {"name": "t", "num_partitions": 1, "replication_factor": 3, "configs": []}
    assert code(ask(0, Api.CREATE_TOPICS, 7, topics=[made], timeout_ms=5_000).topics[0].error_code) == 0
    image = cluster.nodes[0].image()
    assert image is not None
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    owner = cluster.wait_leader(image.topics["t"].partitions[0].group)
    ask(owner, Api.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": parts}])

    first = cluster.wait_leader(FIRST_OFFSETS_GROUP)
    assert [cluster.commit(first, 0, group, at(5, 1)) for group in ("g", "h")] == [0, 0]
    world.run_for(A_ROUND_MS)
    assert shown() == {"g": "5-0", "h": "5-0"}
    redis.fate = away("mirror")
    assert cluster.commit(first, 0, "g", at(6, 1)) == 0
    cluster.kill(first)
    second = cluster.wait_leader(FIRST_OFFSETS_GROUP)
    assert second != first
    world.run_for(A_ROUND_MS)
    assert shown() == {"g": "5-0", "h": "5-0"}
    redis.fate = lambda _: None
    world.run_for(10_000)
    assert shown() == {"g": "6-0", "h": "5-0"}

    redis.fate = away("mirror")
    assert cluster.ask(second, 0, DeleteGroup("h")).error == 0
    cluster.restart(first)
    cluster.wait_ready()
    cluster.kill(second)
    third = cluster.wait_leader(FIRST_OFFSETS_GROUP)
    assert third != second
    redis.fate = lambda _: None
    world.run_for(10_000)
    assert shown() == {"g": "6-0"}


def at(milliseconds: int, sequence: int) -> int:
    """By decision 80."""
    return milliseconds * 1024 + sequence


def test_a_group_of_others_is_left_alone_and_told(served: Mirrored) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    stream, _ = keys_of("muster", name, 0)
    served.redis.redis.ask("XGROUP", "CREATE", stream, "g", "0")
    assert served.commit_of("g", name, offset + 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert served.shown(name)["g"][0] == "0-0"
    (told,) = served.notices
    assert told[0] == NOT_SHOWN
    assert (told[1]["consumer_group"], told[1]["stream"]) == ("g", stream)
    assert "not made by this cluster" in told[1]["why"]
    assert served.delete_group("g") == 0
    served.world.run_for(limits.MIRROR_WALK_MS + 1_000)
    assert set(served.shown(name)) == {"g"}


def test_more_than_the_queue_has_room_for_is_found_by_a_walk(served: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIRROR_QUEUED_MAX", 10)
    monkeypatch.setattr(limits, "MIRROR_WALK_ROWS", 3)
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    served.redis.fate = away("mirror")
    groups = {f"g{n}" for n in range(35)}
    for group in sorted(groups):
        assert served.commit_of(group, name, offset + 1) == 0
    served.redis.fate = lambda _: None
    served.world.run_for(2 * limits.MIRROR_RETRY_MS_MAX)
    assert set(served.shown(name)) == groups


def test_a_round_is_paced(served: Mirrored) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    for n in range(200):
        assert served.commit_of(f"g{n}", name, offset + 1) == 0
    served.world.run_for(2_000)
    times_us: list[int] = []

    def fate(script: Script) -> None:
        if script.name == "mirror":
            times_us.append(served.world.now_us)

    served.redis.fate = fate
    served.restart()
    served.world.run_for(5_000)
    assert len(times_us) == 200
    each = zip(times_us, times_us[limits.MIRROR_AT_ONCE :], strict=False)
    assert all(later - earlier >= 1_000 * limits.MIRROR_PACE_MS for earlier, later in each)


def test_a_commit_is_answered_before_redis_is_asked(served: Mirrored) -> None:
    """In the same virtual time as without the setting, whatever Redis does."""
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    served.redis.calls.clear()
    assert served.commit_of("g", name, offset + 1) == Code.NONE
    assert served.redis.calls == []
