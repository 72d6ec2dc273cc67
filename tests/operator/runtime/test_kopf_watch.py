"""kopf with our handlers against an API server on loopback: what is handed over, logged in with, asked and never
written."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import kopf
import pytest
from muster_operator import handlers
from muster_operator.kube.kinds import CLUSTER, GROUP, OWNERS, POD, STATEFULSET, WATCHED, Kind, selector_for
from muster_operator.runtime.kopf_watch import KopfWatch

from tests.operator.fakes.http_api import HttpApi
from tests.operator.fakes.logins import login_to

EVERY = frozenset(WATCHED)
pytestmark = pytest.mark.timeout(60)
Seen = tuple[str, str | None, str]


def test_kopf_posts_and_scans_nothing_and_no_watch_lasts_for_ever() -> None:
    """Posting would put exceptions, with whatever is in them, into Events."""
    settings = kopf.OperatorSettings()
    asyncio.run(handlers.configure(settings=settings))
    assert settings.posting.enabled is False
    assert settings.scanning.disabled is True
    assert settings.watching.server_timeout == handlers.WATCH_SERVER_TIMEOUT_S


class Scope:
    """One watch and what it handed over."""

    def __init__(self, api: HttpApi, folder: Path, namespace: str = "a") -> None:
        self.news: asyncio.Queue[Seen] = asyncio.Queue()
        self.bodies: list[Any] = []
        self.login = login_to(api.address, folder)
        self.watch = KopfWatch(namespace=namespace, kinds=EVERY, observe=self._observe, login=self.login)
        self.task = asyncio.create_task(self.watch.run())

    def _observe(self, kind: Kind, change: str | None, body: Any) -> None:
        self.bodies.append(body)
        self.news.put_nowait((kind.kind, change, body["metadata"]["name"]))

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self.task


def run(scene: Callable[[HttpApi], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with HttpApi() as api:
            await scene(api)

    asyncio.run(whole())


async def settled(api: HttpApi, namespaces: int = 1) -> None:
    await api.until(
        lambda: all(api.watched(kind) == namespaces for kind in WATCHED if kind.plural not in api.undefined)
    )


def test_the_first_list_and_every_change_are_handed_over_and_nothing_is_written(tmp_path: Path) -> None:
    async def scene(api: HttpApi) -> None:
        api.put(CLUSTER, "early")
        one = Scope(api, tmp_path)
        assert await one.news.get() == ("CoordinatorCluster", None, "early")
        await settled(api)
        assert one.watch.live() == EVERY
        api.put(POD, "p")
        assert await one.news.get() == ("Pod", "ADDED", "p")
        api.put(POD, "p", status={"phase": "Running"})
        assert await one.news.get() == ("Pod", "MODIFIED", "p")
        api.remove(POD, "p")
        assert await one.news.get() == ("Pod", "DELETED", "p")
        assert one.bodies[-1]["apiVersion"] == "v1"
        await one.end()
        assert one.watch.live() == frozenset()
        assert api.writes() == []

    run(scene)


def test_only_what_carries_our_labels_is_asked_for_in_the_scope_s_namespace(tmp_path: Path) -> None:
    async def scene(api: HttpApi) -> None:
        one = Scope(api, tmp_path)
        await settled(api)
        await one.end()
        for kind in WATCHED:
            asked = [it for it in api.requests if it.path.endswith(f"/namespaces/a/{kind.plural}")]
            assert len(asked) >= 2
            wanted = ",".join(f"{key}={value}" for key, value in sorted(selector_for(kind).items()))
            assert {it.query.get("labelSelector", "") for it in asked} == {wanted}
        rest = {it.path for it in api.requests if "/namespaces/a/" not in it.path}
        assert not [path for path in rest if "namespaces" in path or "customresourcedefinitions" in path]

    run(scene)


def test_a_kind_that_is_not_defined_is_not_live_and_the_others_are(tmp_path: Path) -> None:
    async def scene(api: HttpApi) -> None:
        api.undefined = {GROUP.plural}
        one = Scope(api, tmp_path)
        await settled(api)
        assert one.watch.live() == EVERY - {GROUP}
        await one.end()

    run(scene)


@pytest.mark.slow
def test_a_token_that_was_rotated_is_read_anew(tmp_path: Path) -> None:
    """The old one is refused; nobody restarts anything."""

    async def scene(api: HttpApi) -> None:
        api.token = "first"
        one = Scope(api, tmp_path)
        await settled(api)
        (tmp_path / "token").write_text("second")
        api.token = "second"
        api.break_watches()
        await api.until(lambda: {it.token for it in api.requests[-len(WATCHED) :]} == {"second"})
        await settled(api)
        api.put(STATEFULSET, "s")
        assert await one.news.get() == ("StatefulSet", "ADDED", "s")
        assert not one.task.done()
        await one.end()

    run(scene)


@pytest.mark.slow
def test_a_right_that_is_lost_ends_the_watch_of_its_scope_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "ERROR_BACKOFFS_S", ())

    async def scene(api: HttpApi) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        one, other = Scope(api, tmp_path / "a", "a"), Scope(api, tmp_path / "b", "b")
        await settled(api, 2)
        api.refused = {"a/pods"}
        api.break_watches()
        with pytest.raises(Exception, match="Forbidden"):
            await one.task
        assert one.watch.live() == frozenset()
        await settled(api, 1)
        for kind in OWNERS:
            api.put(kind, "x", namespace="b")
            assert await other.news.get() == (kind.kind, "ADDED", "x")
        assert not other.task.done()
        await other.end()

    run(scene)
