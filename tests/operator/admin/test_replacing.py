"""`replace` of the admin adapter against scripted coordinators: whom it asks, what it sends, what each answer means."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from muster_operator.admin.adapter import AdminAdapter
from muster_operator.errors import OperatorError, Refused, Transient

FOLDER = "ab" * 16
Answer = tuple[int, Any]
LEADS: Answer = (200, {"broker": 2, "gone": FOLDER, "binding": 1})


class Coordinators:
    """Broker id → its answer. `asked`: (broker, path, body, token), in order."""

    def __init__(self, answers: Mapping[int, Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[int, str, Any, str]] = []

    async def replace(self, first: int, *, without: tuple[int, ...] = ()) -> OperatorError | None:
        servers = {broker: TestServer(self._app(broker)) for broker in self.answers}
        adapter = AdminAdapter()
        try:
            for server in servers.values():
                await server.start_server()
            hosts = {one: f"{it.host}:{it.port}" for one, it in servers.items() if one not in without}
            await adapter.replace(hosts=hosts, token="t0k3n", first=first, broker=2, folder=FOLDER)
        except OperatorError as error:
            return error
        finally:
            await adapter.close()
            for server in servers.values():
                await server.close()
        return None

    def _app(self, broker: int) -> web.Application:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.asked.append((broker, request.path, await request.json(), request.headers["Authorization"]))
            status, body = self.answers[broker]
            return web.json_response(body, status=status) if body is not None else web.Response(status=status)

        app = web.Application()
        app.router.add_post("/{path:.*}", answer)
        return app


def asked(answers: Mapping[int, Answer], first: int, **more: Any) -> tuple[OperatorError | None, list[int]]:
    coordinators = Coordinators(answers)
    error = asyncio.run(coordinators.replace(first, **more))
    for _, path, body, token in coordinators.asked:
        assert (path, body, token) == ("/v1/replicas/2/replace", {"gone": FOLDER}, "Bearer t0k3n")
    return error, [broker for broker, *_ in coordinators.asked]


def misdirected(coordinator: object) -> Answer:
    return 421, {"error": "misdirected", "message": "another one leads", "coordinator": coordinator, "admin": "evil:1"}


def test_the_leader_is_asked_and_followed_by_its_id_at_the_address_that_is_known() -> None:
    assert asked({0: LEADS}, 0) == (None, [0])
    assert asked({0: LEADS, 1: misdirected(0)}, 1) == (None, [1, 0])


@pytest.mark.parametrize(
    ("answer", "family", "words"),
    [
        ((409, {"error": "no_majority", "message": "of its voters only [1] are connected"}), Refused, "of its voters"),
        ((409, {"error": "feature_level", "message": "from level 3 on"}), Refused, "from level 3 on"),
        ((404, {"error": "no_such_replica", "message": "no replica has the id 2"}), Refused, "no replica has the id"),
        ((404, None), Refused, "HTTP 404"),
        ((503, {"error": "not_known", "message": "ask again"}), Transient, "ask again"),
        ((500, None), Transient, "HTTP 500"),
        ((401, {"error": "unauthorized", "message": "no token"}), Transient, "no token"),
        ((302, None), Refused, "HTTP 302"),
        (misdirected("1"), Refused, "another one leads"),
    ],
)
def test_what_is_not_done_is_told_in_the_coordinators_words(
    answer: Answer, family: type[OperatorError], words: str
) -> None:
    error, _ = asked({0: answer}, 0)
    assert type(error) is family
    assert words in error.message
    assert "t0k3n" not in error.message


def test_leaders_that_name_each_other_are_not_followed_for_ever() -> None:
    error, order = asked({0: misdirected(1), 1: misdirected(0)}, 0)
    assert isinstance(error, Transient)
    assert order == [0, 1, 0]


def test_a_leader_without_an_address_is_not_looked_for_elsewhere() -> None:
    error, order = asked({0: misdirected(1), 1: LEADS}, 0, without=(1,))
    assert isinstance(error, Transient)
    assert order == [0]
