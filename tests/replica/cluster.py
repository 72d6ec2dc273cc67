"""A cluster of the product's own `Node`s on virtual time, disk and network; every life of a replica is a new Node.

`SimCluster(world, replicas=3)`; `start()` runs until every replica is ready. Faults: `kill` (power loss: unsynced bytes
may vanish), `restart`, `net.isolate`, `net.cut`, `disks[b].fail_next`. Requests run until they are answered.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import Command, CommandResult
from muster_coordinator.controller.image import PEER_LISTENER, Endpoint
from muster_coordinator.errors import Code
from muster_coordinator.events import Event, EventKind
from muster_coordinator.groups.requests import (
    FetchedOffset,
    GroupAnswer,
    GroupRequest,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    PartitionCommit,
    TopicCommit,
)
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.ports import Notice
from muster_coordinator.redis_streams.server import StreamServer
from muster_coordinator.replica import limits
from muster_coordinator.replica.node import Node
from muster_coordinator.replica.partitions.surface import LocalLog
from muster_coordinator.replica.settings import NodeSettings

from tests.made_settings import node_settings, shard_config
from tests.sim.disk import SimDisk
from tests.sim.events import check_event
from tests.sim.loop import SimLoop, World, unexpected
from tests.sim.net import SimNet

NO_TOPIC_ID = bytes(16)
SMALL = {"wal_file_bytes": 256 * KIB, "wal_bytes_max": 4 * MIB}
"""Files are zero-written ahead; in memory that is all their size costs."""
AT_REST = {"balancer_quiet_ms": -1, "decommission_redirect_ms": 0}
"""Nothing is levelled, and who is emptied leaves at once."""


class SimCluster:
    """See the module. Broker ids are 0, 1, 2, ..."""

    def __init__(self, world: World, *, replicas: int = 3, partitions: int = 3, **settings: Any) -> None:
        self.world = world
        self.net = SimNet(world)
        self.brokers = [BrokerId(n) for n in range(replicas)]
        self.base = node_settings(
            broker=BrokerId(0),
            initial_voters=tuple(self.brokers),
            offsets_partitions=partitions,
            **{**SMALL, "shard": shard_config(initial_rebalance_delay_ms=0), **AT_REST, **settings},
        )
        self.cluster_id: str | None = None
        """What configurations say of it."""
        self.disks: dict[int, SimDisk] = {broker: SimDisk() for broker in self.brokers}
        self.loops: dict[int, SimLoop] = {}
        self.nodes: dict[int, Node] = {}
        self.notice: Notice = unexpected
        """Told of contained errors."""
        self.events: dict[int, list[Event]] = {broker: [] for broker in self.brokers}
        """What each replica told, over all its lives."""
        self.streams: StreamServer | None = None
        """Where topics in Redis are; all replicas have this one."""
        self.on_start: Callable[[Node], None] | None = None
        """Called with each new Node before it starts."""

    # -- lives -----------------------------------------------------------------------------------------------------

    def add(self, broker: int) -> Node:
        """Start a replica that is no initial voter, on an empty disk. It joins the cluster as it is by now."""
        self.cluster_id = next(image.cluster_id for node in self.nodes.values() if (image := node.image()) is not None)
        self.brokers.append(BrokerId(broker))
        self.disks[broker] = SimDisk()
        self.events[broker] = []
        return self.start_one(broker)

    def settings_of(self, broker: int) -> NodeSettings:
        endpoint = Endpoint(listener="PLAINTEXT", host="replica", port=9092 + broker)
        settings = replace(self.base, broker=BrokerId(broker), endpoints=(endpoint,), cluster_id=self.cluster_id)
        if broker in settings.initial_voters:
            return settings
        peer = Endpoint(listener=PEER_LISTENER, host="replica", port=9192 + broker)
        return replace(settings, endpoints=(endpoint, peer))

    def start_one(self, broker: int) -> Node:
        """A new life on the broker's disk."""
        loop = SimLoop(self.world, skew_us=self.world.rand.randrange(0, 10**9) * 1000)
        port = self.net.port(BrokerId(broker), loop)
        rand = random.Random(self.world.rand.getrandbits(64))
        tell = partial(self._tell, broker)
        settings = self.settings_of(broker)
        node = Node(settings, loop, self.disks[broker], port, rand, self._notice, tell, self.streams)
        self.loops[broker] = loop
        self.nodes[broker] = node
        if self.on_start is not None:
            self.on_start(node)
        node.start()
        return node

    def _tell(self, broker: int, event: Event) -> None:
        check_event(event)
        self.events[broker].append(event)

    def told(self, kind: EventKind, broker: int | None = None) -> list[Mapping[str, object]]:
        """The fields of each event of this kind, of one replica or all."""
        heard = self.events.values() if broker is None else (self.events[broker],)
        return [event.fields for one in heard for event in one if event.kind is kind]

    def _notice(self, what: str, details: Mapping[str, object], error: BaseException | None) -> None:
        self.notice(what, details, error)

    def start(self, ms: float = 30_000) -> None:
        """All of them, until ready."""
        for broker in self.brokers:
            self.start_one(broker)
        self.wait_ready(ms=ms)

    def wait_ready(self, brokers: list[int] | None = None, ms: float = 30_000) -> None:
        wanted = [int(b) for b in self.brokers] if brokers is None else brokers

        def ready() -> bool:
            return all(not self.nodes[broker].not_ready() for broker in wanted)

        try:
            self.world.run_until("all replicas ready", ready, ms)
        except AssertionError:
            told = {broker: self.nodes[broker].not_ready() for broker in wanted}
            raise AssertionError(f"not ready within {ms} ms: {told}") from None

    def kill(self, broker: int) -> None:
        """Power loss of one replica."""
        self.loops[broker].kill()
        del self.nodes[broker], self.loops[broker]
        self.disks[broker].crash(self.world.rand)
        self.net.gone(broker)

    def restart(self, broker: int) -> Node:
        self.disks[broker].restart()
        return self.start_one(broker)

    def empty_disk(self, broker: int) -> None:
        """The volume is lost."""
        self.disks[broker] = SimDisk()

    # -- questions -------------------------------------------------------------------------------------------------

    def leader_of(self, group: int, among: list[int] | None = None) -> int | None:
        """The replica that serves as leader of a Raft group, if exactly one does."""
        found = [
            broker
            for broker in (list(self.nodes) if among is None else among)
            if (node := self.nodes.get(broker)) is not None
            and (held := node.host.groups.get(GroupNo(group))) is not None
            and held.serves
        ]
        return found[0] if len(found) == 1 else None

    def wait_leader(self, group: int, ms: float = 10_000, among: list[int] | None = None) -> int:
        return int(
            self.world.run_until(f"a leader of group {group}", lambda: self._one_more(self.leader_of(group, among)), ms)
            - 1
        )

    @staticmethod
    def _one_more(leader: int | None) -> int | None:
        return None if leader is None else leader + 1

    def hashes(self, group: int) -> set[tuple[int, str]]:
        """(applied, state hash) of every replica; one element when they agree."""
        return {
            (node.host.groups[GroupNo(group)].applied, str(node.state_hash(GroupNo(group))))
            for node in self.nodes.values()
        }

    def converge(self, groups: list[int] | None = None, ms: float = 10_000) -> None:
        """Run until all replicas applied the same and their states hash alike."""
        wanted = list(next(iter(self.nodes.values())).host.groups) if groups is None else groups

        def same() -> bool:
            # None: a broker that is ready holds what it holds; groups may take it in only then.
            held = ({node.host.groups.get(GroupNo(group)) for node in self.nodes.values()} for group in wanted)
            return all(None not in of and len({one.applied for one in of if one}) == 1 for of in held)

        self.world.run_until("all replicas applied the same", same, ms)
        for group in wanted:
            assert len(self.hashes(group)) == 1, (group, self.hashes(group))

    # -- requests --------------------------------------------------------------------------------------------------

    def context(self, broker: int, wait_ms: int = 30_000) -> RequestContext:
        return RequestContext(
            principal="User:ANONYMOUS",
            listener="PLAINTEXT",
            connection_id=1,
            client_id="test",
            client_host="/127.0.0.1",
            api_key=0,
            api_version=0,
            deadline_ms=self.loops[broker].monotonic_ms() + wait_ms,
        )

    def ask_later(self, broker: int, partition: int, request: GroupRequest) -> list[GroupAnswer]:
        """Send; the list gets the answer when it comes."""
        answers: list[GroupAnswer] = []
        self.nodes[broker].group_request(partition, request, self.context(broker), answers.append)
        return answers

    def ask(self, broker: int, partition: int, request: GroupRequest, ms: float = 10_000) -> Any:
        answers = self.ask_later(broker, partition, request)
        self.world.run_until(f"an answer to {request}", lambda: answers, ms)
        assert len(answers) == 1
        return answers[0]

    def commit(self, broker: int, partition: int, group: str, offset: int, topic: str = "t") -> int:
        """Commit one offset of a simple consumer; the error code."""
        answer = self.ask(broker, partition, commit_request(group, offset, topic))
        assert isinstance(answer, OffsetCommitAnswer)
        return answer.topics[0][1][0][1]

    def fetch(self, broker: int, partition: int, group: str, topic: str = "t") -> tuple[int, int]:
        """(error, committed offset)."""
        answer = self.ask(broker, partition, fetch_request(group, topic))
        return fetched(answer)

    def submit(self, broker: int, command: Command, ms: float = 10_000) -> CommandResult:
        results: list[CommandResult] = []
        deadline_ms = self.loops[broker].monotonic_ms() + limits.FORWARD_TIMEOUT_MS
        self.nodes[broker].submit(command, deadline_ms=deadline_ms, done=results.append)
        self.world.run_until(f"a result of {command}", lambda: results, ms)
        assert len(results) == 1
        return results[0]


def produce_when_room(log: LocalLog, batch: bytes, deadline_ms: int, done: Callable[[Code], None]) -> None:
    """As `api.produce` does."""

    def go(admitted: bool) -> None:
        if admitted:
            log.produce(batch, configs={}, deadline_ms=deadline_ms, done=lambda result: done(result.code))
        else:
            done(Code.NOT_ENOUGH_REPLICAS)

    log.when_room(len(batch), deadline_ms, go)


def commit_request(group: str, offset: int, topic: str = "t") -> OffsetCommit:
    """A simple consumer's commit of partition 0."""
    return OffsetCommit(
        group=group,
        generation=-1,
        member="",
        instance=None,
        topics=(TopicCommit(topic, NO_TOPIC_ID, (PartitionCommit(0, offset, -1, ""),)),),
    )


def fetch_request(group: str, topic: str = "t") -> OffsetFetch:
    return OffsetFetch(group, ((topic, (0,)),), require_stable=False)


def fetched(answer: GroupAnswer) -> tuple[int, int]:
    """(error, committed offset) of partition 0."""
    assert isinstance(answer, OffsetFetchAnswer)
    if answer.error:
        return answer.error, -1
    offset: FetchedOffset = answer.topics[0][1][0]
    return offset.error, offset.offset
