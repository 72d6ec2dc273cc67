"""What kopf does by itself, for each thing that the operator does not leave to it: the proofs of the table in
docs/adr/0008-operator.md. Each is kopf as it is installed, with ordinary handlers, against an API server on loopback.

A test that fails here after an update of kopf is good news: a row of the table may have lost its reason.
"""

import asyncio
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import kopf
import pytest
from muster_operator.kube.kinds import CLUSTER, POD, STATEFULSET, Kind

from tests.operator.fakes.http_api import HttpApi

pytestmark = pytest.mark.timeout(60)


def of(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


def ordinary(api: HttpApi) -> kopf.OperatorRegistry:
    """Log-in and settings for these tests; handlers are the test's."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True
        settings.posting.enabled = False
        settings.networking.error_backoffs = ()
        settings.watching.reconnect_backoff = 0.01

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=api.address)

    return registry


@asynccontextmanager
async def alone(
    registry: kopf.OperatorRegistry, *namespaces: str, endpoint: str | None = None, peering: str | None = None
) -> AsyncIterator["asyncio.Future[None]"]:
    """kopf on a thread; the future is its end."""
    stops: list[Callable[[], object]] = []

    async def whole() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(stop.set))
        await kopf.operator(
            registry=registry, namespaces=namespaces or ("a",), standalone=peering is None, stop_flag=stop,
            liveness_endpoint=endpoint, peering_name=peering,
        )  # fmt: skip

    ended = asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(whole()))
    try:
        yield ended
    finally:
        with suppress(RuntimeError):  # it ended by itself
            stops[0]()
        with suppress(Exception):
            await ended


def run(scene: Callable[[HttpApi], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with HttpApi() as api:
            await scene(api)

    asyncio.run(whole())


def test_a_timer_writes_a_finalizer_to_each_object() -> None:
    """So an operator that is gone holds up every deletion, and a start costs a write an object."""

    async def scene(api: HttpApi) -> None:
        api.put(CLUSTER, "c", spec={"replicas": 3})
        registry = ordinary(api)

        @kopf.timer(*of(CLUSTER), interval=60, registry=registry, id="look")
        async def look(**_: Any) -> None:
            return None

        async with alone(registry):
            await api.until(lambda: bool(api.writes()))
        assert "kopf.zalando.org/KopfFinalizerMarker" in json.dumps(api.writes()[0].body)

    run(scene)


def test_back_off_is_kept_in_annotations_with_the_whole_spec_beside_it() -> None:
    async def scene(api: HttpApi) -> None:
        api.put(CLUSTER, "c", spec={"replicas": 3})
        registry = ordinary(api)

        @kopf.on.create(*of(CLUSTER), registry=registry, id="made")
        async def made(**_: Any) -> None:
            raise kopf.TemporaryError("the quorum is not there yet", delay=60)

        async with alone(registry):
            await api.until(lambda: bool(api.writes()))
        found = json.dumps(api.writes()[0].body)
        assert "annotations" in found
        assert "kopf.zalando.org/made" in found

    run(scene)


def test_what_fails_in_an_event_handler_is_not_tried_again() -> None:
    async def scene(api: HttpApi) -> None:
        loop, seen = asyncio.get_running_loop(), asyncio.Queue[str]()
        registry = ordinary(api)

        @kopf.on.event(*of(CLUSTER), registry=registry)
        async def event(name: str, **_: Any) -> None:
            loop.call_soon_threadsafe(seen.put_nowait, name)
            raise kopf.TemporaryError("at once, please", delay=0)

        api.put(CLUSTER, "fails")
        async with alone(registry):
            assert await seen.get() == "fails"
            await api.until(lambda: api.watched(CLUSTER) == 1)
            for name in ("second", "third"):
                api.put(CLUSTER, name)
                assert await seen.get() == name
            assert seen.empty()

    run(scene)


def test_two_children_of_one_owner_are_handled_at_the_same_time() -> None:
    """Its queue has an entry for each object, so nothing makes one pass of many events, nor passes of one owner wait
    for each other. Were it one after the other, the first would wait here until the time is over."""

    async def scene(api: HttpApi) -> None:
        loop, both = asyncio.get_running_loop(), asyncio.Event()
        registry = ordinary(api)
        inside: set[str] = set()
        together = threading.Event()

        async def child(name: str, **_: Any) -> None:
            inside.add(name)
            if len(inside) == 2:
                together.set()
                loop.call_soon_threadsafe(both.set)
            await asyncio.to_thread(together.wait, 30)

        for kind in (STATEFULSET, POD):
            kopf.on.event(*of(kind), registry=registry)(child)
        owner = {"ownerReferences": [{"kind": "CoordinatorCluster", "name": "c", "uid": "u", "controller": True}]}
        api.put(STATEFULSET, "c", metadata=owner)
        api.put(POD, "c-0", metadata=owner)
        try:
            async with alone(registry):
                await both.wait()
        finally:
            together.set()

    run(scene)


def test_an_index_keeps_what_was_deleted_while_a_watch_was_broken() -> None:
    """A list after 410 tells what is there; nothing tells what is not there any more. A pass would count on it."""

    async def scene(api: HttpApi) -> None:
        loop, seen = asyncio.get_running_loop(), asyncio.Queue[set[str]]()
        registry = ordinary(api)

        @kopf.index(*of(CLUSTER), registry=registry, id="clusters")
        async def clusters(name: str, **_: Any) -> dict[str, str]:
            return {name: name}

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(clusters: kopf.Index[str, str], **_: Any) -> None:
            loop.call_soon_threadsafe(seen.put_nowait, set(clusters))

        for name in ("goes", "stays"):
            api.put(CLUSTER, name)
        async with alone(registry):
            await api.until(lambda: api.watched(CLUSTER) == 1 and api.watched(POD) == 1)
            api.remove(CLUSTER, "goes", silently=True)
            before = len(api.requests)
            api.expire_watches()
            await api.until(lambda: len(api.requests) >= before + 4)  # two lists, two watches
            await api.until(lambda: api.watched(CLUSTER) == 1 and api.watched(POD) == 1)
            api.put(POD, "p")
            assert await seen.get() == {"goes", "stays"}

    run(scene)


def test_an_event_that_repeats_is_another_object_each_time() -> None:
    """Ours is a series in one object, with a bound for each object that it is about."""

    async def scene(api: HttpApi) -> None:
        registry = ordinary(api)

        @kopf.on.startup(registry=registry)
        async def posting(settings: kopf.OperatorSettings, **_: Any) -> None:
            settings.posting.enabled = True

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(body: kopf.Body, **_: Any) -> None:
            for _ in range(3):
                kopf.warn(body, reason="Blocked", message="the same words")

        api.put(POD, "p")
        async with alone(registry):
            await api.until(lambda: len([one for one in api.writes() if one.path.endswith("/events")]) == 3)
        assert {one.method for one in api.writes()} == {"POST"}

    run(scene)


def test_what_a_handler_writes_is_a_merge_patch_of_nobody() -> None:
    """Without a field manager of ours, and whoever owns the field: a server-side apply would be told of a conflict."""

    async def scene(api: HttpApi) -> None:
        registry = ordinary(api)

        @kopf.on.event(*of(CLUSTER), registry=registry)
        async def event(patch: kopf.Patch, **_: Any) -> None:
            patch.spec["replicas"] = 5

        api.put(CLUSTER, "c", spec={"replicas": 3})
        async with alone(registry):
            await api.until(lambda: bool(api.writes()))
        (written, *_) = api.writes()
        assert (written.method, written.content_type) == ("PATCH", "application/merge-patch+json")
        assert "fieldManager" not in written.query

    run(scene)


def test_its_peering_is_a_keep_alive_without_a_precondition() -> None:
    """So two of them may both act: a Lease is renewed on the very version that was read, or not at all."""
    peering = Kind(api_version="kopf.dev/v1", kind="KopfPeering", plural="kopfpeerings")

    async def scene(api: HttpApi) -> None:
        api.served = (*api.served, peering)
        api.put(peering, "ours")
        registry = ordinary(api)

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(**_: Any) -> None:
            return None

        async with alone(registry, peering="ours"):
            await api.until(lambda: bool(api.writes()))
        (written, *_) = api.writes()
        assert (written.method, written.path.rsplit("/", 2)[-2:]) == ("PATCH", ["kopfpeerings", "ours"])
        assert "priority" in json.dumps(written.body)
        assert "resourceVersion" not in json.dumps(written.body)

    run(scene)


def test_on_a_thread_it_hears_no_signal() -> None:
    """Its end by SIGTERM, and `@kopf.on.cleanup` with it, is the main thread's; there are as many kopfs as scopes."""

    async def scene(api: HttpApi) -> None:
        before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
        registry = ordinary(api)

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(**_: Any) -> None:
            return None

        async with alone(registry):
            await api.until(lambda: api.watched(POD) == 1)
            assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before

    run(scene)


@pytest.mark.slow
def test_one_namespace_that_refuses_ends_all() -> None:
    async def scene(api: HttpApi) -> None:
        registry = ordinary(api)

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(**_: Any) -> None:
            return None

        async with alone(registry, "a", "b") as ended:
            await api.until(lambda: api.watched(POD) == 2)
            api.refused = {"a/pods"}
            api.break_watches()
            with pytest.raises(Exception, match="Forbidden"):
                await ended
        # Its connections are gone; the API server sees that in its own time.
        await api.until(lambda: api.watched(POD) == 0)

    run(scene)


@pytest.mark.slow
def test_its_end_cancels_every_task_on_its_event_loop() -> None:
    """So it cannot share one with workers that are to go on, or to end in an order of their own."""

    async def scene(api: HttpApi) -> None:
        registry, running = ordinary(api), threading.Event()

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(**_: Any) -> None:
            return None

        async def another() -> bool:
            stop = asyncio.Event()
            its = asyncio.create_task(
                kopf.operator(registry=registry, namespaces=["a"], standalone=True, stop_flag=stop)
            )
            await asyncio.to_thread(running.wait, 30)
            worker = asyncio.create_task(asyncio.Event().wait())
            stop.set()
            await its
            return worker.cancelled()

        cancelled = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(another())))
        await api.until(lambda: api.watched(POD) == 1)
        running.set()
        assert await cancelled

    run(scene)


@pytest.mark.slow
def test_its_health_is_one_path_and_up_to_ten_seconds_old_and_goes_with_its_watches() -> None:
    """No readiness beside liveness, no metrics; and a namespace that refuses would look like an operator that hangs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"

    async def ask(http: aiohttp.ClientSession, path: str) -> tuple[int, str]:
        async with http.get(address + path) as answer:
            return answer.status, await answer.text()

    async def scene(api: HttpApi) -> None:
        registry = ordinary(api)
        asked = 0

        @kopf.on.probe(registry=registry, id="oldest_s")
        async def oldest_s(**_: Any) -> int:
            nonlocal asked
            asked += 1
            return 100_000 * asked

        @kopf.on.event(*of(POD), registry=registry)
        async def pod(**_: Any) -> None:
            return None

        async with aiohttp.ClientSession() as http, alone(registry, endpoint=f"{address}/livez") as ended:
            await api.until(lambda: api.watched(POD) == 1)
            assert await ask(http, "/livez") == (200, '{"oldest_s": 100000}')
            assert await ask(http, "/livez") == (200, '{"oldest_s": 100000}')
            assert (await ask(http, "/readyz"))[0] == 404
            api.refused = {"a/pods"}
            api.break_watches()
            with suppress(Exception):
                await ended
            with pytest.raises(aiohttp.ClientConnectionError):
                await ask(http, "/livez")

    run(scene)
