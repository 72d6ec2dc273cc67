"""The upstream Kafka as this process knows it: its brokers, what they speak, and connections to them (ADR 96).

Problem: its brokers come and go, and are upgraded, while clients know them by ports of ours. Mechanism: one broker
after the other is asked every `LOOK_MS` who they all are, and what it speaks; answers that pass through to clients tell
the former as well. What is offered to clients is what all known brokers speak. A broker that does not answer is no
news: what was known of it stays, because clients are better off trying it than being told that it is gone. What this
does not do: pass requests on (`upstream_passage`).
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping

from muster_coordinator.errors import WireError, ends_process
from muster_coordinator.events import UPSTREAM_REACHED, UPSTREAM_TOPICS_DELETED, UPSTREAM_UNREACHED, Event, Tell
from muster_coordinator.ports import Notice
from muster_coordinator.runtime.upstream_acls import UpstreamAcls
from muster_coordinator.runtime.upstream_dial import UpstreamDialler
from muster_coordinator.runtime.upstream_frames import Frames
from muster_coordinator.runtime.upstream_topics import UpstreamTopics
from muster_coordinator.setting_values import format_address
from muster_coordinator.upstream import limits
from muster_coordinator.upstream.apis import Offered, advertised, common
from muster_coordinator.upstream.brokers import Broker, addresses
from muster_coordinator.upstream.deleted_topics import DeletedTopics
from muster_coordinator.upstream.looks import (
    BY_ID,
    Seen,
    ask_brokers,
    ask_topics,
    ask_versions,
    metadata_version,
    read_brokers,
    read_listed,
    read_topics,
    read_versions,
)
from muster_coordinator.upstream.remembered import Remembered, Said
from muster_coordinator.upstream.view import TopicCounts
from muster_coordinator.wire.versions import Api

Address = tuple[str, int]


class Upstream:
    """`upstream.view.UpstreamView`, and the `Brokers` of all passages. Call `start`, later `close`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bootstrap: tuple[Address, ...],
        dialler: UpstreamDialler,
        notice: Notice,
        tell: Tell,
        wall_ms: Callable[[], int],
        gone: Callable[[Mapping[str, int]], None],
        for_clients: UpstreamDialler | None = None,
        acls: UpstreamAcls | None = None,
        *,
        judges: bool = False,
    ) -> None:
        """`dialler` logs in as the replicas' user. `gone` is told of deleted topics, and until when offsets that were
        committed are theirs. `for_clients`: how their connections are made, which log in themselves; None: as ours.
        `acls`: is shown each broker that is looked at. `judges`: our own ACLs are in front."""
        self._loop = loop
        self._dialler = dialler
        self._for_clients = for_clients or dialler
        self.passes_logins = for_clients is not None
        self._acls = acls
        self._judges = judges
        self._bootstrap = bootstrap
        self._notice = notice
        self._tell = tell
        self._wall_ms = wall_ms
        self._gone = gone
        self._deleted = DeletedTopics()
        self._topic_questions = UpstreamTopics(loop, dialler, self._whom)
        self.topics: TopicCounts = self._topic_questions
        self._brokers: tuple[Broker, ...] = ()
        self._versions: dict[Address, Mapping[int, Offered]] = {}
        """What each broker said at its last look."""
        self._offered: tuple[Mapping[str, int], ...] | None = None
        self._remembered: Remembered | None = None
        self._topics_due_s = -math.inf
        """When topics are looked at next, by the loop's clock."""
        self._turn = self._look_turn = self._topic_turn = 0
        self._task: asyncio.Task[None] | None = None
        self._sooner = asyncio.Event()
        self._proven: set[int] = set()
        """Brokers that a client's connection has reached, until one is lost or does not reach them."""
        self._reached: bool | None = None
        self.receiving_bytes = 0

    def start(self) -> None:
        self._task = self._loop.create_task(self._look_for_ever())

    def close(self) -> None:
        self._topic_questions.close()
        if self._task is not None:
            self._task.cancel()

    # -- upstream.view.UpstreamView

    def advertised(self) -> tuple[Mapping[str, int], ...] | None:
        return self._offered

    def remembered(self) -> Remembered | None:
        return self._remembered

    # -- upstream_passage.Brokers

    @property
    def away(self) -> bool:
        """See `upstream_passage.Brokers`."""
        return self._reached is False

    async def dial(self, node: int | None, made: Callable[[], asyncio.Protocol]) -> None:
        """See `upstream_passage.Brokers`."""
        if node is None:
            async with asyncio.timeout(limits.CONNECT_ANY_MS_MAX / 1_000):
                self._turn += 1
                await self._dial_one_of(self._in_turn(self._turn), made)
            return
        try:
            known = addresses(self._brokers).get(node)
            if known is None:
                self._sooner.set()
                raise ConnectionError(f"broker {node} is not known")
            async with asyncio.timeout(limits.CONNECT_MS_MAX / 1_000):
                await self._dial_one_of([known], made)
        except (OSError, TimeoutError):
            self._proven.discard(node)
            raise
        self._proven.add(node)

    async def _dial_one_of(self, choice: list[Address], made: Callable[[], asyncio.Protocol]) -> None:
        problem = OSError("none is known")
        for address in choice:
            try:
                await self._for_clients.connect(address, made)
                return
            except (OSError, WireError) as error:
                problem = error if isinstance(error, OSError) else ConnectionError(str(error))
                self._sooner.set()
        raise problem

    def learn(self, brokers: tuple[Broker, ...], said: Said | None) -> None:
        """See `upstream_passage.Brokers`."""
        if said is not None and self._remembered is not None:
            self._remembered.note(said)
        if brokers and brokers != self._brokers:
            self._know(brokers)
            self._offer()

    def missing(self, node: int) -> None:
        """See `upstream_passage.Brokers`."""
        self._notice("a broker of the upstream has no port here: upstream.node.ids lacks it", {"broker": node}, None)

    def lost(self, node: int) -> None:
        """See `upstream_passage.Brokers`."""
        self._proven.discard(node)

    def is_doubted(self, node: int) -> bool:
        """See `upstream_passage.Brokers`."""
        return node not in self._proven

    # -- looking

    def _whom(self) -> list[Address]:
        """Whom to ask about topics; nobody while no broker was reached last."""
        self._topic_turn += 1
        return [] if self.away else self._in_turn(self._topic_turn)

    def _in_turn(self, turn: int) -> list[Address]:
        """Whom to ask, another one first each time: brokers that are known, then the configuration's addresses."""
        known = [(broker.host, broker.port) for broker in self._brokers]
        shift = turn % max(len(known), 1)
        found = [*known[shift:], *known[:shift], *self._bootstrap]
        return list(dict.fromkeys(found))

    async def _look_for_ever(self) -> None:
        while True:
            found = False
            try:
                found = await self._look()
            except Exception as error:
                if ends_process(error):
                    raise
                self._notice("a look at the upstream met an error of this replica", {}, error)
            wait_ms = limits.LOOK_MS if found else limits.LOOK_AGAIN_MS
            self._sooner.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1_000):
                    await self._sooner.wait()
                    await asyncio.sleep(limits.LOOK_AGAIN_MS / 1_000)

    async def _look(self) -> bool:
        """Ask one after the other until one answers, and then those of whom we do not know yet what they speak."""
        problems = []
        self._look_turn += 1
        for address in self._in_turn(self._look_turn):
            problem = await self._look_at(address)
            if not problem:
                self._told(reached=True, why="")
                for other in self._unseen():
                    await self._look_at(other)
                return True
            problems.append(problem)
        self._told(reached=False, why="; ".join(problems))
        return False

    def _unseen(self) -> list[Address]:
        there = [(broker.host, broker.port) for broker in self._brokers]
        return [address for address in there if address not in self._versions][: limits.UNSEEN_LOOKS_MAX]

    async def _look_at(self, address: Address) -> str:
        """Returns why there was no answer; "": there was one."""
        frames = Frames(self._loop)
        try:
            try:
                async with asyncio.timeout(limits.LOOK_TIMEOUT_MS / 1_000):
                    seen = await self._ask(address, frames)
            except (OSError, TimeoutError, WireError) as error:
                return f"{format_address(*address)}: {str(error) or type(error).__name__}"
            self._note(address, seen)
            if self._acls is not None:
                await self._acls.look(frames.ask, seen.versions)
            return ""
        finally:
            frames.close()

    def _note(self, address: Address, seen: Seen) -> None:
        self._versions[address] = seen.versions
        if seen.remembered is not None:
            self._remembered = seen.remembered
        self._know(seen.brokers or self._brokers)
        self._offer()
        if seen.deleted:
            self._tell(Event(UPSTREAM_TOPICS_DELETED, {"topics": sorted(seen.deleted)[: limits.TOPICS_TOLD_MAX]}))
            self._gone(seen.deleted)

    def _know(self, brokers: tuple[Broker, ...]) -> None:
        self._brokers = brokers
        if self._remembered is not None:
            self._remembered.brokers = brokers

    def _told(self, *, reached: bool, why: str) -> None:
        if reached is self._reached:
            return
        self._reached = reached
        if reached:
            self._tell(Event(UPSTREAM_REACHED, {"brokers": [broker.node for broker in self._brokers]}))
        else:
            self._tell(Event(UPSTREAM_UNREACHED, {"why": why}))

    def _offer(self) -> None:
        """What all brokers speak whom we have asked, and who are still there."""
        there = {(broker.host, broker.port) for broker in self._brokers}
        kept = {address: said for address, said in self._versions.items() if address in there}
        said = list((kept or self._versions).values())
        self._versions = kept or self._versions
        if said:
            every = dict(said[0])
            for other in said[1:]:
                every = common(every, other)
            self._offered = advertised(every, passes_logins=self.passes_logins, judges=self._judges)

    async def _ask(self, address: Address, frames: Frames) -> Seen:
        await self._dialler.connect(address, lambda: frames)
        versions = read_versions(await frames.ask(ask_versions(1)))
        version = metadata_version(versions)
        topics = self._loop.time() >= self._topics_due_s
        frame = await frames.ask(ask_brokers(version, 2, topics=topics))
        brokers = read_brokers(version, frame)
        if not topics:
            return Seen(versions, brokers, None, {})
        few = len(frame) <= limits.FEW_TOPICS_BYTES_MAX
        self._topics_due_s = self._loop.time() + (0 if few else limits.TOPICS_LOOK_MS / 1_000)
        kept = len(frame) <= limits.TOPICS_BYTES_MAX
        deleted = await self._deleted_by(frames, versions, Said(version, frame), address, len(brokers))
        return Seen(versions, brokers, Remembered(Said(version, frame), brokers) if kept else None, deleted)

    async def _deleted_by(
        self, frames: Frames, versions: Mapping[int, Offered], said: Said, by: Address, brokers: int
    ) -> Mapping[str, int]:
        """Which topics are known to be deleted with this list of all, that one of so many brokers gave."""
        theirs = versions[Api.METADATA]
        if not theirs.low <= BY_ID <= theirs.high:
            return {}
        # Off the loop: it makes an object of each partition.
        found = await self._loop.run_in_executor(None, read_listed, said.version, said.frame)
        self._deleted.listed(self._wall_ms(), found)
        self._topic_questions.listed(found.counts)
        ids = self._deleted.to_ask()
        if not ids:
            return {}
        return self._deleted.answered(read_topics(await frames.ask(ask_topics(3, ids))), by, brokers)
