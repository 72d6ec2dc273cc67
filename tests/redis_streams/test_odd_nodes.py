"""Nodes of a Redis Cluster that answer oddly: whatever they say costs a call, and never the replica."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.server import Failure, Trouble

from tests.redis_streams.test_fail_over import refusal
from tests.redis_streams.test_redis_client import PATIENCE_S, Handler, listening, trouble_of, using

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
INFO = b"redis_version:7.0.15\r\nrole:master\r\naof_enabled:1\r\nloading:0\r\nconnected_slaves:1\r\n"
DONE = b"*2\r\n$2\r\nOK\r\n$3\r\n1-1\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def all_slots(host: bytes, port: int, *beside: bytes) -> bytes:
    """CLUSTER SLOTS: one node has all."""
    node = [bulk(host), b":%d\r\n" % port, bulk(b"0123456789"), b"*%d\r\n" % len(beside), *map(bulk, beside)]
    return b"*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n" + b"".join(node)


def node(answers: Mapping[bytes, bytes]) -> Handler:
    """One that answers a command by its first word or two, as `answers` stands then; to any other one, OK."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            known = {b"INFO": bulk(INFO), b"CONFIG": b"*2\r\n" + bulk(b"appendfsync") + bulk(b"always"), **answers}
            both = b" ".join(words[:2]).upper()
            writer.write(known.get(both, known.get(words[0].upper(), b"+OK\r\n")))
            await writer.drain()

    return handle


def told(port: int, **more: Any) -> dict[str, Any]:
    nodes = (("127.0.0.1", port),)
    return {"url": "redis://cluster", "nodes": nodes, "durability": "memory", "timeout_ms": 2_000, **more}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"-MOVED nonsense\r\n", "no answer of Redis"),
        (b"-MOVED 7 ?:7000\r\n", "sends on to nobody"),
        (b"-ASK 7 a/b:7000\r\n", "sends on to nobody"),
        (b"-MOVED 7 127.0.0.1:0\r\n", "sends on to nobody"),
        (b"-MOVED 7 127.0.0.1:99999\r\n", "sends on to nobody"),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "TRYAGAIN|Multiple keys"),
        (b"-CLUSTERDOWN The cluster is down\r\n", "cluster is down"),
    ],
)
def test_what_sends_nowhere_is_a_server_that_is_away_and_the_next_call_is_asked_anew(said: bytes, why: str) -> None:
    async def asked() -> None:
        answers = {b"EVALSHA": said}
        handle = node(answers)
        async with listening(handle) as port:
            answers[b"CLUSTER"] = all_slots(b"127.0.0.1", port)
            async with using(0, **told(port)) as used:
                assert await used.judged() == ""
                for number in range(3):
                    answer = await used.append(number=number, durable=True)
                    assert isinstance(answer, Failure)
                    assert answer.trouble in (Trouble.AWAY, Trouble.UNKNOWN)
                    assert any(word in answer.message for word in why.split("|")), answer
                answers[b"EVALSHA"] = DONE
                assert not isinstance(await used.append(number=3, durable=True), Failure)

    asyncio.run(asked())


def test_nodes_that_send_to_each_other_end_a_call() -> None:
    async def asked() -> None:
        first: dict[bytes, bytes] = {}
        second: dict[bytes, bytes] = {}
        async with listening(node(first)) as one, listening(node(second)) as other:
            first |= {b"CLUSTER": all_slots(b"127.0.0.1", one), b"EVALSHA": b"-MOVED 7 127.0.0.1:%d\r\n" % other}
            second |= {b"CLUSTER": all_slots(b"127.0.0.1", one), b"EVALSHA": b"-MOVED 7 :%d\r\n" % one}
            async with using(0, **told(one)) as used:
                assert await used.judged() == ""
                assert "send from one to another" in refusal(await used.append())

    asyncio.run(asked())


@pytest.mark.parametrize(
    "listed",
    [
        b"*0\r\n",
        b"+OK\r\n",
        b"-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n",
        b"*1\r\n:1099511627776\r\n",
        all_slots(b"?", 7_000),
        all_slots(b"a]b", 7_000),
        b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n:1099511627776\r\n:1\r\n",
    ],
)
def test_a_list_that_is_none_is_told_and_nobody_is_called(listed: bytes) -> None:
    async def asked() -> None:
        async with listening(node({b"CLUSTER": listed})) as port, using(0, **told(port)) as used:
            async with asyncio.timeout(PATIENCE_S):
                while not used.notices:
                    await asyncio.sleep(0.02)
            assert f"127.0.0.1:{port}" in str(used.notices[0])
            assert "none was reached yet" in refusal(await used.append())
            assert used.client.unfit() == "Redis was not reached yet"

    asyncio.run(asked())


def test_a_node_without_a_name_of_its_own_is_met_at_its_address() -> None:
    async def asked() -> None:
        answers = {b"EVALSHA": DONE}
        async with listening(node(answers)) as port:
            answers[b"CLUSTER"] = all_slots(b"?", port, b"ip", b"127.0.0.1")
            async with using(0, **told(port)) as used:
                assert await used.judged() == ""
                assert not isinstance(await used.append(durable=True), Failure)

    asyncio.run(asked())


def test_a_user_who_may_not_ask_during_a_move_is_told_so() -> None:
    """Else the two nodes would seem to send to each other."""

    async def asked() -> None:
        first: dict[bytes, bytes] = {}
        second = {b"ASKING": b"-NOPERM no permissions to run the 'asking' command\r\n", b"EVALSHA": b""}
        async with listening(node(first)) as one, listening(node(second)) as other:
            first |= {b"CLUSTER": all_slots(b"127.0.0.1", one), b"EVALSHA": b"-ASK 7 127.0.0.1:%d\r\n" % other}
            second[b"EVALSHA"] = b"-MOVED 7 127.0.0.1:%d\r\n" % one
            async with using(0, **told(one)) as used:
                assert await used.judged() == ""
                answer = await used.append()
                assert trouble_of(answer) is Trouble.REFUSED
                assert "'asking' command" in answer.message
                second[b"EVALSHA"] = DONE  # the move has ended
                assert not isinstance(await used.append(number=2), Failure)

    asyncio.run(asked())


def test_a_node_of_a_cluster_that_was_configured_as_a_server_says_what_is_missing() -> None:
    async def asked() -> None:
        answers = {b"EVALSHA": b"-MOVED 7 127.0.0.1:7000\r\n"}
        async with listening(node(answers)) as port, using(port) as used:
            answer = await used.append()
            assert trouble_of(answer) is Trouble.REFUSED
            assert "redis.cluster.nodes" in answer.message

    asyncio.run(asked())


@pytest.mark.parametrize(
    "said",
    [
        b"-MOVED nonsense\r\n",
        b"-MOVED 7 127.0.0.1:7000\r\n",
        b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*1\r\n$1\r\nx\r\n",
        b":5\r\n",
        b"*1\r\n:5\r\n",
        b"*1\r\n*2\r\n:5\r\n*0\r\n",
        b"*1\r\n*2\r\n$1\r\ns\r\n*0\r\n",
        b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*1\r\n:5\r\n",
    ],
)
def test_news_that_is_none_is_a_server_that_cannot_be_asked(said: bytes) -> None:
    """Whoever listens is told, and finds out by reading."""

    async def asked() -> None:
        answers = {b"CLIENT ID": b":1\r\n", b"XREAD": said}
        async with listening(node(answers)) as port:
            answers[b"CLUSTER"] = all_slots(b"127.0.0.1", port)
            async with using(0, **told(port)) as used:
                assert await used.judged() == ""
                for _ in range(2):
                    heard = asyncio.Event()
                    used.client.news("s", EntryId(0, 0), heard.set)
                    await asyncio.wait_for(heard.wait(), PATIENCE_S)

    asyncio.run(asked())


@pytest.mark.parametrize(
    "said", [b":5\r\n", b"+OK\r\n", b"*0\r\n", b"*1\r\n$2\r\nOK\r\n", b"*2\r\n:1\r\n:2\r\n", b"$-1\r\n"]
)
def test_what_is_no_answer_of_a_script_leaves_unknown_what_it_did(said: bytes) -> None:
    async def asked() -> None:
        answers = {b"EVALSHA": said}
        async with listening(node(answers)) as port, using(port) as used:
            assert await used.judged() == ""
            answer = await used.append(durable=True)
            assert isinstance(answer, Failure)
            assert answer.trouble is Trouble.UNKNOWN
            answers[b"EVALSHA"] = DONE
            assert not isinstance(await used.append(), Failure)

    asyncio.run(asked())


GREETINGS = [
    b":5\r\n",
    b"+OK\r\n",
    b"*0\r\n",
    b"*1\r\n:5\r\n",
    b"$-1\r\n",
    b"%1\r\n+proto\r\n:2\r\n",
    b"-ERR no\r\n",
    b"?\r\n",
]


@pytest.mark.parametrize("said", GREETINGS)
@pytest.mark.parametrize("command", [b"HELLO", b"CLIENT SETNAME", b"AUTH", b"SELECT"])
def test_a_greeting_that_is_answered_by_anything_costs_the_connection(said: bytes, command: bytes) -> None:
    async def asked() -> None:
        answers = {command: said, b"INFO": b":5\r\n"}
        login = {"username": "muster", "password": "canary"} if command in (b"HELLO", b"AUTH") else {}
        more = {"protocol": 3 if command == b"HELLO" else 2, "timeout_ms": 1_000, **login}
        async with listening(node(answers)) as port, using(port, **more) as used:
            answer = await used.append()
            assert isinstance(answer, Failure) or command == b"SELECT"
            async with asyncio.timeout(PATIENCE_S):
                while not used.notices:
                    await asyncio.sleep(0.02)
            assert used.client.unfit() == "Redis was not reached yet"

    asyncio.run(asked())


@pytest.mark.parametrize("durability", ["wait", "aof"])
@pytest.mark.parametrize("said", [b"+OK\r\n", b"*0\r\n", b"*1\r\n$1\r\n1\r\n", b"$-1\r\n"])
def test_what_proves_nothing_is_no_proof(durability: str, said: bytes) -> None:
    async def asked() -> None:
        info = INFO.replace(b"7.0.15", b"7.2.0")
        answers = {b"EVALSHA": DONE, b"WAIT": said, b"WAITAOF": said, b"INFO": bulk(info)}
        async with listening(node(answers)) as port, using(port, durability=durability) as used:
            assert await used.judged() == ""
            answer = await used.append(durable=True)
            assert isinstance(answer, Failure)
            assert answer.trouble is Trouble.NOT_DURABLE

    asyncio.run(asked())


@pytest.mark.parametrize(
    "odd",
    [
        {b"INFO": bulk(b"redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:x\r\n")},
        {b"INFO": b":5\r\n"},
        {b"INFO": b"*0\r\n"},
        {b"CONFIG": b":5\r\n"},
        {b"CONFIG": b"*1\r\n:5\r\n"},
        {b"CONFIG": b"*2\r\n:5\r\n:5\r\n"},
    ],
)
def test_a_server_whose_words_about_itself_are_none_is_not_written_to(odd: dict[bytes, bytes]) -> None:
    async def asked() -> None:
        answers = dict(odd)
        async with listening(node(answers)) as port, using(port) as used:
            async with asyncio.timeout(PATIENCE_S):
                while not used.notices:
                    await asyncio.sleep(0.02)
            assert used.client.unfit() == "Redis was not reached yet"
            answers.clear()
            assert await used.judged() == ""

    asyncio.run(asked())
