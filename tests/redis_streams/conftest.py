"""A real Redis, and a replica whose topics are in it, for the tests of one file."""

from collections.abc import Iterator

import pytest

from tests.cluster import MusterCluster
from tests.redis_streams.redis_server import Connection, RedisServer


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    settings = {
        "topics.mode": "redis",
        "redis.url": f"redis://127.0.0.1:{redis.port}/0",
        "redis.durability": "aof",
        "redis.timeout.ms": "2000",
        "group.initial.rebalance.delay.ms": "0",
    }
    folder = tmp_path_factory.mktemp("muster") / "disk"
    with MusterCluster(folder, replicas=1, partitions=2, settings=settings) as started:
        yield started


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, cluster: MusterCluster) -> MusterCluster:
    """The replica, to which commands of this process are sent."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", cluster.bootstrap)
    return cluster


@pytest.fixture
def cli(redis: RedisServer) -> Connection:
    return redis.connect()


@pytest.fixture
def url(redis: RedisServer) -> str:
    return f"redis://127.0.0.1:{redis.port}/0"
