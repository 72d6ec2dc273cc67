"""Fail-overs of a real Redis by real Sentinels: whom a replica's client goes to, and what is there afterwards.

What was acknowledged with `redis.durability=wait` is on the next primary, once and in order: by one replica when the
primary dies or freezes, by all of them when it lives and another one is made primary, since the one that confirms need
not be the one that is chosen. What is lost with less is printed: nobody promises it.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.redis_streams.append_ids import NO_APPEND
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.owned import read_arguments
from muster_coordinator.redis_streams.server import READ, Failure, Trouble

from tests.cluster import port_block, wait_until
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.sentinel_servers import DOWN_AFTER_MS, NAME, PASSWORD, SENTINELS, Sentinels
from tests.redis_streams.test_redis_client import PATIENCE_S, Handler, Used, listening, trouble_of, using

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
APPENDS = 400
FAIL_OVERS_TRIED = 4
CLIENTS_DOC = Path(__file__).resolve().parents[2] / "docs" / "clients.md"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sentinels]:
    with Sentinels(tmp_path_factory.mktemp("sentinels")) as started:
        yield started


def told(world: Sentinels, **more: Any) -> dict[str, Any]:
    return {**world.settings, "durability": "wait", "timeout_ms": 2_000, **more}


def values(server: RedisServer, stream: str) -> list[int]:
    return [int(fields[-1]) for _, fields in server.connect().ask("XRANGE", stream, "-", "+")]


def is_replica(server: RedisServer) -> bool:
    return b"role:slave" in server.connect().ask("INFO", "replication")


async def append_all(
    used: Used, at: int, then: Callable[[], Awaitable[object]], first: int = 0, end: int = APPENDS
) -> list[Failure]:
    """Values `first` and so on, each until it is acknowledged, as the owner of a partition does; `then` happens at one
    of them. Returns what went wrong meanwhile."""
    wrong: list[Failure] = []
    happening: asyncio.Future[object] | None = None
    async with asyncio.timeout(2 * PATIENCE_S):
        for number in range(first, end):
            if number == at:
                happening = asyncio.ensure_future(then())
            while isinstance(answer := await used.append(b"%d" % number, number, durable=True), Failure):
                assert answer.trouble is not Trouble.REFUSED, answer
                wrong.append(answer)
                await asyncio.sleep(0.05)
        assert happening is not None
        await happening
    return wrong


def in_thread(call: Callable[[], object]) -> Callable[[], Awaitable[object]]:
    return lambda: asyncio.get_running_loop().run_in_executor(None, call)


@pytest.mark.parametrize("protocol", [2, 3])
def test_calls_and_news_are_of_the_server_that_sentinels_name(world: Sentinels, protocol: int) -> None:
    world.wait_whole()

    async def asked() -> None:
        async with using(0, **told(world, protocol=protocol)) as used:
            assert await used.judged() == ""
            assert not isinstance(await used.append(durable=True), Failure)
            heard = asyncio.Event()
            used.client.news(used.keys[0], EntryId(0, 0), heard.set)
            await asyncio.wait_for(heard.wait(), PATIENCE_S)
            assert world.primary().connect().ask("XLEN", used.keys[0]) == 1

    asyncio.run(asked())


@pytest.mark.parametrize(("how", "replicas"), [("killed", 1), ("paused", 1), ("asked to", 2)])
def test_what_was_acknowledged_with_wait_is_on_the_next_primary_once_and_in_order(
    world: Sentinels, how: str, replicas: int
) -> None:
    world.wait_whole()
    before = world.primary()

    def gone() -> None:
        if how == "killed":
            before.kill()
        elif how == "paused":
            world.pause(before)
        else:
            world.fail_over()

    async def asked() -> None:
        async with using(0, **told(world, wait_replicas=replicas)) as used:
            assert await used.judged() == ""
            began_s = time.monotonic()
            wrong = await append_all(used, APPENDS // 2, in_thread(gone))
            after = await asyncio.to_thread(world.wait_other_than, before)
            assert values(after, used.keys[0]) == list(range(APPENDS))
            print(f"{how}: {APPENDS} appends in {time.monotonic() - began_s:.1f} s, {len(wrong)} tries in vain")
            if how == "paused":
                # It goes on, a primary by its own word until Sentinels reach it, and nobody writes to it.
                world.go_on(before)
                assert not isinstance(await used.append(b"%d" % APPENDS, APPENDS, durable=True), Failure)
            elif how == "killed":
                before.start()
            await asyncio.to_thread(world.wait_whole)
            expected = list(range(APPENDS + (how == "paused")))
            for server in world.servers:
                assert values(server, used.keys[0]) == expected
            # The address that is known by now is the one that is read.
            assert not isinstance(await used.run(READ, read_arguments(0, b"-", 1, 1, NO_APPEND)), Failure)
            assert values(world.primary(), used.keys[0]) == expected

    try:
        asyncio.run(asked())
    finally:
        if how == "paused":
            world.go_on(before)


def test_a_primary_that_is_back_before_its_fail_over_is_through_is_nobody_to_go_to(world: Sentinels) -> None:
    """The Sentinel that carries it out tells its address under the new epoch, until all replicas follow the next one:
    here one of them is stopped, and nobody takes it for down. On a busy machine a fail-over may be through before that;
    then there is another one."""
    assert any(asked_in_its_midst(world) for _ in range(FAIL_OVERS_TRIED)), "each was through too early"


def asked_in_its_midst(world: Sentinels) -> bool:
    """False: the fail-over was through before all were asked."""
    world.wait_whole()
    before = world.primary()
    epoch = int(world.told(0)[b"config-epoch"])
    before.kill()

    def carriers() -> list[int]:
        told = [world.told(number) for number in range(SENTINELS)]
        return [at for at, one in enumerate(told) if int(one[b"config-epoch"]) > epoch and names_old_one(one)]

    def names_old_one(told: dict[bytes, bytes]) -> bool:
        return int(told[b"port"]) == before.port and b"failover_in_progress" in told[b"flags"].split(b",")

    def begun() -> bool:
        return bool(carriers()) or world.primary() is not before

    wait_until("a fail-over", begun, PATIENCE_S, every=0)
    number = next(iter(carriers()), None)
    third = next((one for one in world.servers if one is not before and is_replica(one)), None)
    if number is None or third is None:
        before.start()
        return False
    (after,) = (one for one in world.servers if one not in (before, third))
    world.pause(third)
    try:
        world.ask(number, "SENTINEL", "SET", NAME, "down-after-milliseconds", "60000")
        before.start()

        def seems_up() -> bool:
            told = world.told(number)
            return not names_old_one(told) or b"down" not in told[b"flags"]

        wait_until("the one before seems up", seems_up, PATIENCE_S, every=0)

        async def asked() -> None:
            for turn in range(10):  # the order of their answers is another one each time
                async with using(0, **told(world, durability="memory")) as used:
                    assert not isinstance(await used.append(b"%d" % turn), Failure)
                    assert values(after, used.keys[0]) == [turn]

        asyncio.run(asked())
        return names_old_one(world.told(number))
    finally:
        world.go_on(third)
        world.ask(number, "SENTINEL", "SET", NAME, "down-after-milliseconds", str(DOWN_AFTER_MS))
        world.wait_whole()


@pytest.mark.parametrize(("durability", "how"), [("memory", "killed"), ("wait", "asked to")])
def test_what_is_not_promised_is_counted_and_the_rest_is_in_order(world: Sentinels, durability: str, how: str) -> None:
    world.wait_whole()
    before = world.primary()

    async def asked() -> None:
        async with using(0, **told(world, durability=durability)) as used:
            assert await used.judged() == ""

            def everywhere() -> bool:
                return all(len(values(server, used.keys[0])) == APPENDS // 4 for server in world.servers)

            await append_all(used, 0, lambda: asyncio.sleep(0), end=APPENDS // 4)
            # Replication is behind for as long as a busy machine leaves a replica no processor.
            await asyncio.to_thread(wait_until, "what was long before is everywhere", everywhere, PATIENCE_S)
            gone = before.kill if how == "killed" else world.fail_over
            await append_all(used, APPENDS // 2, in_thread(gone), first=APPENDS // 4)
            after = await asyncio.to_thread(world.wait_other_than, before)
            found = values(after, used.keys[0])
            assert found == sorted(set(found))
            assert found[: APPENDS // 4] == list(range(APPENDS // 4)), "what was there long before"
            print(f"{durability}, {how}: {APPENDS - len(found)} of {APPENDS} acknowledged records are gone")

    asyncio.run(asked())
    if how == "killed":
        before.start()
    world.wait_whole()


def test_a_primary_is_looked_at_before_it_is_written_to(tmp_path: Path) -> None:
    """`aof`, and the other servers have no file: Redis 7.0 has no WAITAOF that says so."""
    with Sentinels(tmp_path / "world", keeps=(True, False, False)) as world:

        async def asked() -> None:
            async with using(0, **told(world, durability="aof")) as used:
                assert await used.judged() == ""
                assert not isinstance(await used.append(b"0", 0, durable=True), Failure)
                world.servers[0].kill()
                async with asyncio.timeout(PATIENCE_S):
                    while not used.client.unfit():
                        answer = await used.append(b"1", 1, durable=True)
                        assert isinstance(answer, Failure), "acknowledged by a server without a file"
                        assert answer.trouble in (Trouble.AWAY, Trouble.UNKNOWN), answer
                        await asyncio.sleep(0.02)
                assert used.client.unfit() == "redis.durability is aof, and it has no append-only file"
                assert values(world.primary(), used.keys[0]) == [0]

        asyncio.run(asked())


def refusal(answer: object) -> str:
    assert isinstance(answer, Failure), answer
    assert trouble_of(answer) is Trouble.AWAY
    return answer.message


def test_sentinels_that_are_gone_silent_or_strangers_cost_no_more_than_the_time_of_one_call(world: Sentinels) -> None:
    world.wait_whole()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def asked() -> None:
        with port_block(2) as free:
            nobody = ("127.0.0.1", free.base)
            async with listening(silent) as port:
                quiet = ("127.0.0.1", port)
                few = {"sentinels": (quiet, nobody, *world.addresses)}
                async with using(0, **told(world, timeout_ms=20_000, **few)) as used:
                    began_s = time.monotonic()
                    assert not isinstance(await used.append(), Failure)
                    assert time.monotonic() - began_s < 10, "more than half of them have answered"
                one = {"sentinels": (quiet, nobody, world.addresses[0])}
                async with using(0, **told(world, timeout_ms=500, **one)) as used:
                    assert not isinstance(await used.append(), Failure), "one alone is believed"
                async with using(0, **told(world, timeout_ms=500, sentinels=(quiet, nobody))) as used:
                    said = refusal(await used.append())
                    assert f"no Sentinel tells where {NAME} is" in said
                    assert f"127.0.0.1:{free.base}" in said
                    assert f"127.0.0.1:{port}" in said
            async with using(0, **told(world, sentinel_password="wrong")) as used:
                said = refusal(await used.append())
                assert "invalid username-password" in said
                assert PASSWORD not in said
            async with using(0, **told(world, primary="unknown")) as used:
                assert "No such master with that name" in refusal(await used.append())

    asyncio.run(asked())


def test_a_user_at_the_sentinels_needs_the_documented_rights_and_no_more(world: Sentinels) -> None:
    world.wait_whole()
    (rights,) = re.findall(r"^ACL SETUSER asker on >PASSWORD (.*)$", CLIENTS_DOC.read_text(), re.MULTILINE)
    for number in range(len(world.addresses)):
        world.ask(number, "ACL", "SETUSER", "asker", "reset", "on", f">{PASSWORD}", *rights.split())

    async def asked() -> None:
        async with using(0, **told(world, sentinel_username="asker")) as used:
            assert not isinstance(await used.append(), Failure)

    asyncio.run(asked())


def sentinel(*parts: str) -> Handler:
    """One that answers so."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if b"MASTER" in data:
                body = "".join(f"${len(part)}\r\n{part}\r\n" for part in parts)
                writer.write(f"*{len(parts)}\r\n{body}".encode())
            else:
                writer.write(b"+OK\r\n")
            await writer.drain()

    return handle


def test_a_sentinel_of_before_the_fail_over_and_one_that_talks_nonsense_are_not_believed(world: Sentinels) -> None:
    world.wait_whole()
    world.fail_over()
    world.wait_whole()
    replica = next(server for server in world.servers if server is not world.primary())

    late = ("ip", "127.0.0.1", "port", str(replica.port), "config-epoch", "0", "flags", "master")

    async def asked() -> None:
        async with listening(sentinel(*late)) as first, listening(sentinel("ip", "x")) as second:
            early = (("127.0.0.1", first), ("127.0.0.1", second), *world.addresses[:2])
            async with using(0, **told(world, sentinels=early)) as used:
                assert not isinstance(await used.append(), Failure)
                assert world.primary().connect().ask("XLEN", used.keys[0]) == 1
            async with using(0, **told(world, sentinels=(("127.0.0.1", first),))) as used:
                assert "is no primary by its own word" in refusal(await used.append())

    asyncio.run(asked())
