"""`decommission` and `moves` of the admin adapter against scripted coordinators."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port
from muster_operator.admin.adapter import AdminAdapter
from muster_operator.admin.decode import STUCK_CHARS_MAX, moves_view
from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.world.cluster import MovesView
from muster_operator.world.views import Unknown

TOLD = {"state": "moving", "reason": "", "paused": False, "moving": 2, "planned": [], "more": False, "stuck": []}


def ask(status: int, body: Any, *, silent_first: bool = False) -> tuple[OperatorError | None, list[Any], Any]:
    """(error of `decommission`, what was asked, what `moves` says)."""
    asked: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        said = await request.json() if request.can_read_body else None
        asked.append((request.method, request.path, said, request.headers["Authorization"]))
        return web.json_response(body, status=status) if body is not None else web.Response(status=status)

    async def scene() -> tuple[OperatorError | None, Any]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        server, adapter, error = TestServer(app), AdminAdapter(), None
        await server.start_server()
        host = f"{server.host}:{server.port}"
        hosts = [f"127.0.0.1:{unused_port()}", host] if silent_first else [host]
        try:
            await adapter.decommission(hosts=hosts, token="t0k3n", broker=4, departing=True)
        except OperatorError as caught:
            error = caught
        moves = await adapter.moves(host=host, token="t0k3n")
        await adapter.close()
        await server.close()
        return error, moves

    error, moves = asyncio.run(scene())
    return error, asked, moves


@pytest.mark.parametrize("silent_first", [False, True])
def test_the_first_that_answers_is_asked_once(silent_first: bool) -> None:
    error, asked, moves = ask(200, TOLD, silent_first=silent_first)
    assert error is None
    assert asked == [
        ("POST", "/v1/replicas/4/decommission", {"departing": True}, "Bearer t0k3n"),
        ("GET", "/v1/balancer", None, "Bearer t0k3n"),
    ]
    assert moves == MovesView(moving=2, paused=False, stuck=())


def test_who_has_left_already_is_no_error() -> None:
    assert ask(404, {"error": "no_such_replica", "message": "no replica of this cluster has the id 4"})[0] is None


@pytest.mark.parametrize(
    ("status", "body", "family", "words"),
    [
        (409, {"error": "refused", "message": "a-0 has 3 replicas, and 2 brokers would be left"}, Refused, "2 brokers"),
        (409, {"error": "feature_level", "message": "from level 3 on"}, Refused, "from level 3 on"),
        (503, {"error": "no_leader", "message": "ask again"}, Transient, "ask again"),
        (401, {"error": "unauthorized", "message": "no token"}, Transient, "no token"),
        (500, None, Transient, "HTTP 500"),
        (302, None, Refused, "HTTP 302"),
    ],
)
def test_a_refusal_is_told_in_the_coordinators_words(
    status: int, body: Any, family: type[OperatorError], words: str
) -> None:
    error, asked, moves = ask(status, body)
    assert type(error) is family
    assert words in error.message
    assert "t0k3n" not in error.message
    assert len(asked) == 2, "a refusal is not asked of another one"
    assert isinstance(moves, Unknown)


@pytest.mark.parametrize(
    "changes",
    [{"moving": None}, {"moving": True}, {"moving": "2"}, {"stuck": None}, {"stuck": 3}, {"paused": ...}],
)
def test_an_answer_of_another_shape_is_unknown(changes: Mapping[str, Any]) -> None:
    document = {key: value for key, value in {**TOLD, **changes}.items() if value is not ...}
    assert isinstance(moves_view(document), Unknown)


def test_words_of_the_coordinators_are_bounded() -> None:
    found = moves_view({**TOLD, "stuck": ["x" * 9_999] * 10, "reason": "y" * 9_999})
    assert isinstance(found, MovesView)
    assert [len(one) for one in found.stuck] == [STUCK_CHARS_MAX] * 3
    assert len(found.reason) == STUCK_CHARS_MAX
