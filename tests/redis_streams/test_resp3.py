"""RESP3 (`redis.protocol=3`) with a real server: entries and news of them, a user, positions of its groups.

Behind Sentinels and in a Cluster: `test_fail_over`, `test_redis_cluster`.
"""

import asyncio
from collections.abc import Iterator

import pytest
from muster_coordinator.cli.redis_groups import RedisAt, positions
from muster_coordinator.redis_settings import RedisKeys
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.server import Failure

from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.test_redis_client import PATIENCE_S, using
from tests.redis_streams.test_secure_redis import PASSWORD, documented_rights

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
USER = "muster"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        started.connect().ask("ACL", "SETUSER", USER, "reset", *documented_rights(started), "~client:*")
        yield started
        assert started.connect().ask("ACL", "LOG") == [], "nothing was asked that is not allowed"


@pytest.mark.parametrize("login", [{}, {"username": USER, "password": PASSWORD}])
@pytest.mark.parametrize("durability", ["memory", "aof"])
def test_entries_and_news_of_them(server: RedisServer, login: dict[str, str], durability: str) -> None:
    async def asked() -> None:
        async with using(server.port, protocol=3, durability=durability, **login) as used:
            assert await used.judged() == ""
            first = EntryId(0, 0)
            for number in range(1, 4):
                heard = asyncio.Event()
                used.client.news(used.keys[0], first, heard.set)
                answer = await used.append(number=number, durable=True)
                assert not isinstance(answer, Failure), answer
                await asyncio.wait_for(heard.wait(), PATIENCE_S)
                first = EntryId.parse(answer[1])
            ours = [line for line in server.connect().ask("CLIENT", "LIST").splitlines() if b"name=muster" in line]
            assert ours
            assert all(b" resp=3" in line for line in ours)

    asyncio.run(asked())


def test_positions_of_a_group_that_redis_has(server: RedisServer) -> None:
    connection = server.connect()
    for number in (1, 2, 3):
        connection.ask("XADD", "old", f"{number}-0", "k", "v")
    connection.ask("XGROUP", "CREATE", "old", "workers", "0")
    connection.ask("XREADGROUP", "GROUP", "workers", "one", "COUNT", 2, "STREAMS", "old", ">")
    told = {
        protocol: positions(
            RedisAt(RedisKeys(redis_url=f"redis://127.0.0.1:{server.port}", redis_protocol=protocol), 5_000),
            "workers",
            ["old", "none"],
        )
        for protocol in (2, 3)
    }
    assert told[2] == told[3]
    found = told[3]["old"]
    assert found is not None
    assert found == (EntryId(2, 0), 2, EntryId(1, 0))
    assert told[3]["none"] is None
