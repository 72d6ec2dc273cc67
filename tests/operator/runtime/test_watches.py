"""Watches are started after a list, anew when they end, and each scope has its own."""

import asyncio
from collections.abc import Callable
from typing import Any

from muster_operator.errors import Refused
from muster_operator.kube.kinds import GROUP, WATCHED, Kind
from muster_operator.limits import RELIST_RETRY_MAX_MS, WATCH_START_MAX_MS
from muster_operator.runtime.scopes import Scope, Scopes
from muster_operator.runtime.watches import Watches

from tests.operator.fakes.virtual_loop import VirtualLoop, run_virtually

EVERY = frozenset(WATCHED)


class FakeWatch:
    """Lives until it is told to fail."""

    def __init__(self, namespace: str, kinds: frozenset[Kind], found: frozenset[Kind]) -> None:
        self.namespace, self.kinds = namespace, kinds
        self._found = found
        self.failure: asyncio.Future[None] | None = None
        self.ended = False

    def live(self) -> frozenset[Kind]:
        return self.kinds & self._found if self.failure is not None and not self.ended else frozenset()

    async def run(self) -> None:
        self.failure = asyncio.get_running_loop().create_future()
        try:
            await self.failure
        finally:
            self.ended = True


class Place:
    def __init__(self, *namespaces: str) -> None:
        self.loop = VirtualLoop()
        self.scopes = Scopes(namespaces)
        self.made: list[tuple[int, FakeWatch]] = []
        self.asked: list[Scope] = []
        self.found = EVERY
        self.relist: Callable[[Scope], None] = lambda scope: scope.listed((), self.now())

    def now(self) -> int:
        return self.loop.monotonic_ms() - 1_000_000

    def start(self, namespace: str, kinds: frozenset[Kind]) -> FakeWatch:
        made = FakeWatch(namespace, kinds, self.found)
        self.made.append((self.now(), made))
        return made

    def ask(self, scope: Scope) -> None:
        self.asked.append(scope)
        self.relist(scope)

    def run(self, scene: Callable[[], Any]) -> Any:
        async def whole() -> Any:
            watches = Watches(start=self.start, ask=self.ask, scopes=self.scopes, clock=self.loop)
            task = asyncio.ensure_future(watches.run())
            try:
                return await scene()
            finally:
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
                assert all(one.ended for _, one in self.made), "nothing is left running"

        return run_virtually(self.loop, whole())

    async def pause(self, milliseconds: int) -> None:
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=milliseconds / 1_000)

    def break_newest(self, namespace: str) -> None:
        newest = [one for _, one in self.made if one.namespace == namespace][-1]
        assert newest.failure is not None
        newest.failure.set_exception(PermissionError("403"))


def test_nothing_is_watched_before_it_was_listed_nor_while_it_refuses() -> None:
    place = Place("a")
    (scope,) = place.scopes

    async def scene() -> None:
        await place.pause(60_000)
        scope.failed(Refused("Forbidden", "no"), place.now())
        await place.pause(60_000)
        assert place.made == []
        scope.listed((), place.now())
        await place.pause(1_000)
        assert [at for at, _ in place.made] == [120_000]
        assert scope.served

    place.run(scene)


def test_a_watch_that_ends_is_started_anew_and_no_other_notices() -> None:
    place = Place("a", "b")

    async def scene() -> None:
        for scope in place.scopes:
            scope.listed((), 0)
        await place.pause(120_000)
        place.break_newest("a")
        await place.pause(5_000)

    place.run(scene)
    assert [one.namespace for _, one in place.made] == ["a", "b", "a"]
    assert [one.namespace for one in place.asked] == ["a"]


def test_a_watch_that_keeps_ending_is_started_with_back_off() -> None:
    place = Place("a")
    (scope,) = place.scopes

    async def scene() -> None:
        scope.listed((), 0)
        for _ in range(200):
            await place.pause(1_000)
            newest = place.made[-1][1]
            if newest.failure is not None and not newest.failure.done():
                place.break_newest("a")

    place.run(scene)
    gaps = [later - earlier for (earlier, _), (later, _) in zip(place.made, place.made[1:], strict=False)]
    assert sorted(gaps) == gaps
    assert RELIST_RETRY_MAX_MS <= gaps[-1] <= RELIST_RETRY_MAX_MS + 2_000


def test_without_a_list_that_succeeds_no_watch_follows_one_that_ended() -> None:
    """The list tells what is the matter; it has the back-off."""
    place = Place("a")
    (scope,) = place.scopes
    place.relist = lambda scope: scope.failed(Refused("Forbidden", "no"), place.now())

    async def scene() -> None:
        scope.listed((), 0)
        await place.pause(1_000)
        place.break_newest("a")
        await place.pause(3_600_000)
        assert len(place.made) == 1
        scope.listed((), place.now())
        await place.pause(1_000)
        assert len(place.made) == 2

    place.run(scene)


def test_a_kind_that_is_defined_later_is_watched_with_the_others() -> None:
    place = Place("a")
    (scope,) = place.scopes

    async def scene() -> None:
        scope.listed({GROUP}, 0)
        await place.pause(60_000)
        assert place.scopes.unready() == ["ConsumerGroup is not defined"]
        scope.listed((), place.now())
        await place.pause(2_000)
        assert place.scopes.unready() == []

    place.run(scene)
    assert [one.kinds for _, one in place.made] == [EVERY - {GROUP}, EVERY]
    assert place.asked == []


def test_a_watch_that_does_not_find_a_kind_is_not_ready_and_is_started_anew() -> None:
    """One API server of several may not know yet what another listed."""
    place = Place("a")
    place.found = EVERY - {GROUP}
    (scope,) = place.scopes

    async def scene() -> None:
        scope.listed((), 0)
        await place.pause(10_000)
        assert place.scopes.unready() == ["no watch of ConsumerGroup in namespace a"]
        place.found = EVERY
        await place.pause(WATCH_START_MAX_MS)
        assert place.scopes.unready() == []

    place.run(scene)
    assert len(place.made) == 2
