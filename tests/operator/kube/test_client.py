"""The client of the API server on real sockets: one way to log in, what is repeated and what never is."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import kopf
import pytest
from muster_operator.errors import Transient
from muster_operator.kube.client import MERGE, ApiClient
from muster_operator.kube.kinds import CLUSTER
from muster_operator.kube.login import Login
from muster_operator.limits import KUBE_CONNECTIONS_MAX, KUBE_LOGIN_AGE_MAX_MS

from tests.operator.fakes.clocks import FakeClock
from tests.operator.fakes.http_api import HttpApi
from tests.operator.fakes.logins import login_to

PATH = CLUSTER.path(namespace="a")
pytestmark = pytest.mark.timeout(30)


class Calls:
    """A client whose clock and figures can be looked at."""

    def __init__(self, login: Login) -> None:
        self.clock = FakeClock()
        self.statuses: list[int] = []
        self.client = ApiClient(login, clock=self.clock, observe=self._observe)

    def _observe(self, verb: str, kind: str, status: int, seconds: float) -> None:
        self.statuses.append(status)

    async def list(self, **more: Any) -> Any:
        return await self.client.call("GET", PATH, verb="list", kind="CoordinatorCluster", **more)

    async def patch(self, **more: Any) -> Any:
        body = {"metadata": {"labels": {"a": "b"}}}
        return await self.client.call(
            "PATCH", f"{PATH}/c", verb="patch", kind="CoordinatorCluster", body=body, content_type=MERGE, **more
        )


def run(folder: Path, scene: Callable[[HttpApi, Calls], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with HttpApi() as api:
            calls = Calls(login_to(api.address, folder))
            try:
                await scene(api, calls)
            finally:
                await calls.client.close()

    asyncio.run(whole())


def test_what_is_asked_is_what_the_api_server_gets(tmp_path: Path) -> None:
    async def scene(api: HttpApi, calls: Calls) -> None:
        api.put(CLUSTER, "c")
        answer = await calls.list(query={"labelSelector": "a=b,c in (d, e)", "limit": "500"})
        assert [one["metadata"]["name"] for one in answer.document["items"]] == ["c"]
        assert api.requests[-1].query == {"labelSelector": "a=b,c in (d, e)", "limit": "500"}
        assert (await calls.patch()).ok
        assert (api.requests[-1].method, api.requests[-1].body) == ("PATCH", {"metadata": {"labels": {"a": "b"}}})
        assert calls.statuses == [200, 200]

    run(tmp_path, scene)


def test_a_long_answer_is_whole(tmp_path: Path) -> None:
    async def scene(api: HttpApi, calls: Calls) -> None:
        for n in range(40):
            api.put(CLUSTER, f"c{n}", data={"text": "x" * 16_384})
        assert len((await calls.list()).document["items"]) == 40

    run(tmp_path, scene)


def test_a_refused_token_is_read_anew_and_the_request_put_once_more(tmp_path: Path) -> None:
    """A write too: 401 means that nothing was done."""

    async def scene(api: HttpApi, calls: Calls) -> None:
        api.token = "first"
        assert (await calls.list()).ok
        (tmp_path / "token").write_text("second")
        api.token = "second"
        answers = await asyncio.gather(*(calls.patch() for _ in range(KUBE_CONNECTIONS_MAX)))
        assert all(one.ok for one in answers)
        assert {one.token for one in api.requests[-KUBE_CONNECTIONS_MAX:]} == {"second"}
        before = len(api.requests)
        api.token = "third, which nobody tells us"
        assert (await calls.patch()).status == 401
        assert len(api.requests) == before + 2

    run(tmp_path, scene)


def test_credentials_are_not_read_for_each_request(tmp_path: Path) -> None:
    async def scene(api: HttpApi, calls: Calls) -> None:
        await calls.list()
        (tmp_path / "token").write_text("second")
        calls.clock.advance(KUBE_LOGIN_AGE_MAX_MS - 1)
        await calls.list()
        assert api.requests[-1].token == "first"

    run(tmp_path, scene)


def a_pod(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """kopf's login finds `folder` where a pod has its service account."""
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    exists = os.path.exists

    def found(path: Any) -> Any:
        return str(path).replace(place, str(folder))

    monkeypatch.setattr(os.path, "exists", lambda path: exists(found(path)))
    reader = kopf.login_with_service_account.__globals__
    monkeypatch.setitem(reader, "open", lambda path, **more: Path(found(path)).open(**more))  # noqa: SIM115


def test_in_a_pod_it_is_kopf_s_login_at_the_address_that_kubernetes_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pod(monkeypatch, tmp_path)
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    login = Login()
    assert (login.connection().server, login.connection().token) == ("https://[fd00::1]:443", "first")
    (tmp_path / "token").write_text("second\n")
    assert login.connection().token == "second"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert login.connection().server == "https://10.0.0.1:443"


def test_a_pod_s_token_that_was_rotated_is_used_after_a_minute_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pod(monkeypatch, tmp_path)
    (tmp_path / "token").write_text("first")

    async def scene(api: HttpApi, _: Calls) -> None:
        login = Login()
        monkeypatch.setattr("muster_operator.kube.login.in_pod", lambda: at(api.address))
        calls = Calls(login)
        await calls.list()
        (tmp_path / "token").write_text("second")
        calls.clock.advance(KUBE_LOGIN_AGE_MAX_MS)
        await calls.list()
        assert [one.token for one in api.requests] == ["first", "second"]
        await calls.client.close()

    def at(address: str) -> kopf.ConnectionInfo:
        found = kopf.login_with_service_account(settings=kopf.OperatorSettings())
        assert found is not None
        return kopf.ConnectionInfo(server=address, token=found.token)

    (tmp_path / "elsewhere").mkdir()
    run(tmp_path / "elsewhere", scene)


def test_without_credentials_it_is_no_answer(tmp_path: Path) -> None:
    calls = Calls(Login(str(tmp_path / "missing")))
    with pytest.raises(Transient, match="no credentials"):
        asyncio.run(calls.list())
    assert calls.statuses == [0]


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def calls_to(handler: Handler, folder: Path) -> AsyncIterator[Calls]:
    """A client of a server that does what `handler` does with each connection; then all of it is closed."""
    under_way: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            await handler(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    calls = Calls(login_to(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", folder))
    try:
        yield calls
    finally:
        await calls.client.close()
        server.close()
        await asyncio.wait(under_way)


@pytest.mark.parametrize(("method", "times"), [("list", 2), ("patch", 1)])
def test_a_connection_that_breaks_under_a_request(tmp_path: Path, method: str, times: int) -> None:
    """Reads are repeated once; of a PATCH nobody knows whether it was carried out."""
    seen = 0

    async def broken(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal seen
        await reader.readuntil(b"\r\n\r\n")
        seen += 1

    async def scene() -> None:
        async with calls_to(broken, tmp_path) as calls:
            with pytest.raises(Transient, match="no answer from the API server"):
                await getattr(calls, method)()
            assert calls.statuses == [0]

    asyncio.run(scene())
    assert seen == times


@pytest.mark.parametrize("method", ["list", "patch"])
def test_who_is_silent_is_asked_once(tmp_path: Path, method: str) -> None:
    seen = 0

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await reader.read()

    async def scene() -> None:
        async with calls_to(silent, tmp_path) as calls:
            with pytest.raises(Transient, match="Timeout"):
                await getattr(calls, method)(read_timeout_s=0.1)

    asyncio.run(scene())
    assert seen == 1


def test_an_answer_that_comes_by_drops_is_given_up(tmp_path: Path) -> None:
    async def drops(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not reader.at_eof():
            writer.write(b" ")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await reader.read(1)

    async def scene() -> None:
        async with calls_to(drops, tmp_path) as calls:
            with pytest.raises(Transient, match="Timeout"):
                await calls.list(read_timeout_s=0.1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster_operator.kube.client.KUBE_CONNECT_TIMEOUT_S", 0.2)
        asyncio.run(scene())


def test_a_log_in_that_hangs_holds_nobody_for_ever(tmp_path: Path) -> None:
    """As an exec plug-in that waits for a person."""
    go_on = threading.Event()

    class Hanging(Login):
        def connection(self, *, anew: bool = False) -> kopf.ConnectionInfo:
            go_on.wait(20)
            return super().connection(anew=anew)

    async def scene() -> None:
        calls = Calls(Hanging(str(tmp_path / "missing")))
        try:
            answers = await asyncio.gather(*(calls.list(read_timeout_s=0.1) for _ in range(3)), return_exceptions=True)
        finally:
            go_on.set()
        assert [type(one) for one in answers] == [Transient] * 3

    asyncio.run(scene())


def test_no_more_requests_than_turns_are_under_way(tmp_path: Path) -> None:
    under_way = most = 0

    async def scene() -> None:
        full = asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal under_way, most
            await reader.readuntil(b"\r\n\r\n")
            under_way += 1
            most = max(most, under_way)
            if under_way == KUBE_CONNECTIONS_MAX:
                full.set()
            await full.wait()
            under_way -= 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            await writer.drain()

        async with calls_to(slow, tmp_path) as calls:
            answers = await asyncio.gather(*(calls.list() for _ in range(5 * KUBE_CONNECTIONS_MAX)))
            assert all(one.ok for one in answers)

    asyncio.run(scene())
    assert most == KUBE_CONNECTIONS_MAX
