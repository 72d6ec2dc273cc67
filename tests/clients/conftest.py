"""One server for the run, members that never outlive their test, every client by name."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.member import Member
from tests.clients.server import Server, shared_server

CLIENTS = (
    "librdkafka",
    "kafka-python",
    "aiokafka",
    pytest.param("java", marks=pytest.mark.java),
)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.getbasetemp()
    with shared_server((base.parent if "popen-" in base.name else base) / "shared-server") as it:
        yield it


@pytest.fixture
def member(server: Server) -> Iterator[Callable[..., Member]]:
    """`member("librdkafka", group=..., topics=[...])`; 6 s sessions, 0.5 s heartbeats unless told otherwise."""
    all_members: list[Member] = []

    def make(client: str, **settings: Any) -> Member:
        one = Member(client, bootstrap=server.bootstrap, **settings)
        all_members.append(one)
        return one

    yield make
    for one in all_members:
        one.dispose()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)
