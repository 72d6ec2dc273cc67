"""A replica's client on a real Redis Cluster: slots at many nodes, that move and lose their node under appends.

What was acknowledged is there once and in order, with `redis.durability=wait` also when a primary is killed.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.redis_streams.append_ids import NO_APPEND
from muster_coordinator.redis_streams.append_script import arguments
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.owned import read_arguments
from muster_coordinator.redis_streams.produced import Produced
from muster_coordinator.redis_streams.server import APPEND, READ, Failure
from muster_coordinator.runtime import redis_cluster
from redis.crc import key_slot

from tests.redis_streams.cluster_servers import PRIMARIES, Cluster
from tests.redis_streams.test_fail_over import APPENDS, CLIENTS_DOC, append_all, in_thread, refusal, values
from tests.redis_streams.test_redis_client import OFFSETS, PATIENCE_S, Used, closed_at_each_turn, using
from tests.redis_streams.test_secure_redis import PASSWORD, documented_rights

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
STREAMS = 100


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def told(world: Cluster, **more: Any) -> dict[str, Any]:
    return {**world.settings, "durability": "wait", "timeout_ms": 2_000, **more}


async def reached(used: Used) -> None:
    """Each of its nodes, and all are fit."""
    assert await used.judged() == ""
    async with asyncio.timeout(PATIENCE_S):
        while any(used.client._node(address).server.unfit() for address in used.client._slots.primaries()):
            await asyncio.sleep(0.02)
    assert len(used.client._slots.primaries()) >= PRIMARIES


async def append_to(used: Used, keys: tuple[str, str], value: bytes) -> Any:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    batch = Produced(-1, -1, -1, [(None, [b"v", value])])
    used.client.run(APPEND, keys, arguments(1, OFFSETS, batch, number=0), done.set_result, durable=True)
    return await asyncio.wait_for(done, PATIENCE_S)


@pytest.mark.parametrize("protocol", [2, 3])
def test_each_stream_is_written_to_and_heard_of_at_the_node_that_has_its_slot(
    world: Cluster, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    """Streams of a hundred slots, of which few have a connection for news."""
    world.wait_whole()
    monkeypatch.setattr(redis_cluster, "REDIS_SLOTS_NEWS_MAX", 10)
    names = [keys_of("spread", f"t{protocol}", number) for number in range(STREAMS)]

    async def asked() -> None:
        heard: set[str] = set()
        async with using(0, **told(world, protocol=protocol)) as used:
            await reached(used)
            for keys in names:
                used.client.news(keys[0], EntryId(0, 0), lambda stream=keys[0]: heard.add(stream))
            answers = await asyncio.gather(*(append_to(used, keys, b"7") for keys in names))
            assert [answer for answer in answers if isinstance(answer, Failure)] == []
            async with asyncio.timeout(PATIENCE_S):
                while len(heard) < STREAMS:
                    await asyncio.sleep(0.05)
            assert len(used.client._news) == 10

    asyncio.run(asked())
    assert len({world.owner(stream).port for stream, _ in names}) == PRIMARIES
    for stream, _ in names[:10]:
        assert values(world.owner(stream), stream) == [7]


def test_a_node_that_sends_to_another_one_has_done_nothing(world: Cluster) -> None:
    world.wait_whole()

    async def asked() -> None:
        async with using(0, **told(world)) as used:
            await reached(used)
            owner = world.owner(used.keys[0])
            other = next(one for one in world.servers if one is not owner and world.is_primary(one))
            slot = key_slot(used.keys[0].encode())
            used.client._slots.moved(slot, ("127.0.0.1", other.port))
            assert not isinstance(await used.append(b"1", 0, durable=True), Failure)
            assert values(owner, used.keys[0]) == [1]
            assert used.client._slots.of(slot) == ("127.0.0.1", owner.port), "by its word"

    asyncio.run(asked())


def test_a_slot_moves_there_and_back_under_appends(world: Cluster) -> None:
    world.wait_whole()

    async def asked() -> None:
        async with using(0, **told(world)) as used:
            await reached(used)
            stream = used.keys[0]
            owner = world.owner(stream)
            other = next(one for one in world.servers if world.is_primary(one) and one is not owner)

            def moves() -> None:
                for _ in range(3):
                    world.move(stream, other)
                    world.move(stream, owner)
                world.move(stream, other)

            wrong = await append_all(used, APPENDS // 4, in_thread(moves))
            assert values(other, stream) == list(range(APPENDS))
            print(f"moved: {len(wrong)} tries in vain")
            assert not isinstance(await used.run(READ, read_arguments(0, b"-", 1, 1, NO_APPEND)), Failure)
            world.move(stream, owner)

    asyncio.run(asked())


def test_a_user_with_the_documented_rights_is_enough_while_a_slot_moves(world: Cluster) -> None:
    world.wait_whole()
    (more,) = re.findall(r"A user needs `(.*?)` besides the rights above", CLIENTS_DOC.read_text())
    for server in world.servers:
        admin = server.connect()
        admin.ask("ACL", "SETUSER", "muster", "reset", *documented_rights(server), *more.split())
        admin.ask("ACL", "LOG", "RESET")

    async def asked() -> None:
        async with using(0, **told(world, username="muster", password=PASSWORD)) as used:
            await reached(used)
            used.keys = keys_of("muster", "rights", 0)
            owner = world.owner(used.keys[0])
            other = next(one for one in world.servers if one is not owner and world.is_primary(one))

            def moves() -> None:
                world.move(used.keys[0], other)
                world.move(used.keys[0], owner)

            await append_all(used, APPENDS // 4, in_thread(moves))
            assert values(owner, used.keys[0]) == list(range(APPENDS))

    asyncio.run(asked())
    for server in world.servers:
        assert server.connect().ask("ACL", "LOG") == []


def test_a_slot_moves_to_a_node_that_had_none(world: Cluster, tmp_path: Path) -> None:
    """It is in no list of slots until the first one is its own."""
    world.wait_whole()

    async def asked() -> None:
        async with using(0, **told(world, durability="memory")) as used:
            await reached(used)
            stream = used.keys[0]
            owner = world.owner(stream)
            with world.joined(tmp_path / "new") as new:
                wrong = await append_all(used, APPENDS // 4, in_thread(lambda: world.move(stream, new)))
                print(f"moved to a new node: {len(wrong)} tries in vain")
                assert values(new, stream) == list(range(APPENDS))
                await asyncio.to_thread(world.move, stream, owner)
                assert not isinstance(await used.append(b"%d" % APPENDS, APPENDS, durable=True), Failure)
                assert values(owner, stream) == list(range(APPENDS + 1))

    asyncio.run(asked())


def test_a_slot_that_nobody_listens_to_makes_room_for_another_one(
    world: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.wait_whole()
    monkeypatch.setattr(redis_cluster, "REDIS_SLOTS_NEWS_MAX", 2)
    first, second, third, fourth = (keys_of("room", "t", number)[0] for number in range(4))

    async def asked() -> None:
        async with using(0, **told(world)) as used:
            await reached(used)

            def listened() -> set[int]:
                return set(used.client._news)

            def slots(*streams: str) -> set[int]:
                return {key_slot(stream.encode()) for stream in streams}

            monkeypatch.setattr(redis_cluster, "REDIS_NEWS_IDLE_MS", 1)
            heard: list[str] = []
            ends = used.client.news(first, EntryId(0, 0), lambda: heard.append(first))
            used.client.news(second, EntryId(0, 0), lambda: heard.append(second))
            used.client.news(third, EntryId(0, 0), lambda: heard.append(third))
            assert listened() == slots(first, second), "both are listened to: the third is told at a pace"
            ends()
            await asyncio.sleep(0.05)
            used.client.news(fourth, EntryId(0, 0), lambda: heard.append(fourth))
            assert listened() == slots(second, fourth)
            world.owner(fourth).connect().ask("XADD", fourth, "*", "v", "1")
            async with asyncio.timeout(PATIENCE_S):
                while not {third, fourth} <= set(heard):
                    await asyncio.sleep(0.05)
            assert first not in heard

    asyncio.run(asked())


def test_a_primary_is_killed_under_appends(world: Cluster) -> None:
    world.wait_whole()

    async def asked() -> None:
        async with using(0, **told(world)) as used:
            await reached(used)
            stream = used.keys[0]
            before = world.owner(stream)
            await append_all(used, 0, in_thread(lambda: None), end=APPENDS // 2)
            before.kill()
            after = await asyncio.to_thread(world.wait_other_than, before, stream)
            # Alone: nobody confirms what it writes, until the one that was killed is back, as its replica.
            before.start()
            await asyncio.to_thread(world.wait_whole)
            assert values(after, stream)[: APPENDS // 2] == list(range(APPENDS // 2))
            await append_all(used, APPENDS // 2, in_thread(lambda: None), first=APPENDS // 2)
            assert values(after, stream) == list(range(APPENDS))

    asyncio.run(asked())


def test_a_cluster_without_a_node_that_answers_is_away(world: Cluster) -> None:
    async def asked() -> None:
        async with using(0, **told(world, nodes=(("127.0.0.1", 1),))) as used:
            assert "was not reached yet" in used.client.unfit()
            assert "no node has slot" in refusal(await used.append())
            async with asyncio.timeout(PATIENCE_S):
                while not used.notices:
                    await asyncio.sleep(0.05)
            assert "127.0.0.1:1" in str(used.notices[0])

    asyncio.run(asked())


@pytest.mark.parametrize("busy", [False, True])
def test_whenever_it_is_closed_nothing_of_its_nodes_stays(world: Cluster, busy: bool) -> None:
    world.wait_whole()
    asyncio.run(closed_at_each_turn(120, lambda: Used(0, **told(world)), busy=busy))
