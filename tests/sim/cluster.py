"""A whole cluster on one virtual clock: replicas with their disks and lives, the links between them, the client side.

Each replica is the product's own `Node`, `Dispatcher` and `wire.Connection`, on simulated ports. A life ends by `kill`
(the process dies, the page cache stays) or `power_off` (what was not synced vanishes or tears), either at once or at a
*boundary*: before or after the n-th disk operation, peer message or client answer from now. An error that escapes the
product ends the life too; unless a disk fault was injected into it, that is a violation.
"""

import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from muster_coordinator.admin.drain import Drain
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.controller.image import PEER_LISTENER, ClusterImage, Endpoint
from muster_coordinator.errors import StorageFailed
from muster_coordinator.events import BALANCER_MOVE, DISK_FULL, DISK_HAS_ROOM, Event
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, BrokerId, GroupNo
from muster_coordinator.limits import KIB
from muster_coordinator.replica.group_manager import (
    OLDER_STATE,
    STATE_AGAIN,
    WAL_DAMAGED,
    WITHOUT_STATE,
)
from muster_coordinator.replica.node import Node
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.replica.partitions.suspensions import NOT_SUSPENDED, SUSPENDED
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots import damage, repair
from muster_coordinator.replica.snapshots.install import GIVEN_UP, NOT_AS_WRITTEN
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.connection_state import State

from tests.made_settings import api_settings, node_settings, shard_config
from tests.sim.disk import PowerLoss, SimDisk
from tests.sim.events import check_event
from tests.sim.history import History, Op, Violation
from tests.sim.loop import Latency, SimLoop, World, unexpected
from tests.sim.mesh_net import MeshNet
from tests.sim.net import SimNet
from tests.sim.rare_orders import RareOrders
from tests.sim.rot import Harm
from tests.sim.slices import before_disk_operation
from tests.sim.wires import Wire, Wires
from tests.wire.frames import frames_of

LISTENER = "sim"
OF_FAILING_DISKS = (GIVEN_UP, WITHOUT_STATE, STATE_AGAIN)
OF_MOVES = (SUSPENDED, NOT_SUSPENDED)
OF_ROT = {
    damage.WHAT: "damaged batches were noticed",
    repair.REPAIRED: "a damaged segment was fetched again",
    repair.SOUND: "a damaged segment reads again",
    repair.FAILED: "a damaged segment has no whole copy yet",
    NOT_AS_WRITTEN: "a transfer brought damage",
    GIVEN_UP: "a transfer was given up",
    OLDER_STATE: "an older checkpoint stood in",
    WITHOUT_STATE: "a group had no state",
    STATE_AGAIN: "a group had its state again",
    SUSPENDED: "a voter was suspended",
    NOT_SUSPENDED: "a voter was made whole",
    WAL_DAMAGED: "damage in a WAL was noticed",
}
"""What is told of flipped bits, and how the marks call it."""
START_MS = 20
"""From the process' start to its first action."""


TRANSACTION_PARTITIONS = 2
SMALL = {"wal_file_bytes": 256 * KIB}
"""Files are zero-written ahead, and held in memory here: the default is 200 MB a replica."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Size and settings of a cluster; the same for all replicas."""

    seed: str = "0"
    nodes: int = 3
    partitions: int = 4
    shard: ShardConfig = field(default_factory=lambda: shard_config(initial_rebalance_delay_ms=0))
    topics_mode: TopicsMode = TopicsMode.NONE
    node: dict[str, Any] = field(default_factory=dict)
    """Further fields of `NodeSettings`."""
    disk_us: tuple[int, int] = (100, 2_000)
    slice_us: tuple[int, int] | None = None
    """Drawn time between the disk operations of one I/O job; None: jobs run whole."""
    link_us: tuple[int, int] = (50, 800)
    observers: int = 0
    """Brokers that join while the cluster runs; their ids follow those of the others."""
    racks: tuple[str, ...] = ()
    """Dealt to the brokers in the order of their ids; none: nobody has one."""
    mesh: bool = False
    """Peer links by the product's own mesh over simulated TCP (`mesh_net`), or by the model of them (`net`)."""


class Life:
    """One run of a replica's process, and its end of the client connections."""

    def __init__(self, cluster: "Cluster", replica: "Replica", number: int) -> None:
        setup = cluster.setup
        self.cluster = cluster
        self.replica = replica
        seed = f"{setup.seed}/life/{replica.broker}/{number}"
        rand = random.Random(seed)
        self.loop = SimLoop(
            cluster.world, skew_us=rand.randint(0, 10**9), wall_us=replica.wall_us, escaped=replica.escaped
        )
        self.loop.default_latency = Latency(*setup.disk_us)
        self.loop.slice_us = setup.slice_us
        self.loop.place = cluster.orders.of(replica.broker)
        self.loop.drift(replica.drift_ppm)
        port = cluster.net.port(replica.broker, self.loop)
        self.node = Node(replica.settings(), self.loop, replica.disk, port, rand, self._noticed, self._told)
        api = api_settings(topics_mode=setup.topics_mode, transaction_partitions=TRANSACTION_PARTITIONS)
        self.dispatcher = Dispatcher(self.node, api, verifier=self.node)
        self.drain = Drain(self.node)
        self._connections: dict[int, Connection] = {}
        self._flushing: set[int] = set()

    def _noticed(self, what: str, details: Mapping[str, object], error: BaseException | None) -> None:
        """A failing disk may cost a transfer, and a group its state for a while; nothing else is contained here."""
        if self.cluster.harm.rotten and what in OF_ROT:
            self.cluster.marks.add(OF_ROT[what])
        elif what in OF_MOVES and self.cluster.moves:
            self.cluster.marks.add("a replica that came back stood aside")
        elif not (self.replica.disk_may_fail and what in OF_FAILING_DISKS):
            unexpected(what, details, error)

    def _told(self, event: Event) -> None:
        check_event(event)
        for call in self.cluster.on_event:
            call(self, event)
        if event.kind is DISK_FULL:
            self.cluster.marks.add("a full disk was noticed")
        elif event.kind is DISK_HAS_ROOM:
            self.cluster.marks.add("a disk had room again")
        elif event.kind is BALANCER_MOVE:
            self.cluster.marks.add("the balancer moved a partition")

    # wires.ServerEnd

    def accepted(self, wire: Wire) -> None:
        self._connections[wire.number] = Connection(
            listener=LISTENER,
            connection_id=wire.number,
            client_host="/10.0.0.1",
            clock=self.loop,
            handle=self.dispatcher.handle,
            heartbeat_at_once=self.dispatcher.heartbeat_at_once,
            notice=unexpected,
            wake=lambda: self._wake(wire),
        )

    def received(self, wire: Wire, data: bytes) -> None:
        self.loop.call_soon(partial(self._take, wire, data))

    def closed(self, wire: Wire) -> None:
        self.loop.call_soon(lambda: self._end(wire))

    def _take(self, wire: Wire, data: bytes) -> None:
        connection = self._connections.get(wire.number)
        if connection is None:
            return
        answers = connection.answer_at_once(data)
        if answers is None:
            connection.receive(data)
        else:
            self._write(wire, [answers])

    def _end(self, wire: Wire) -> None:
        connection = self._connections.pop(wire.number, None)
        if connection is not None:
            connection.close()

    def _wake(self, wire: Wire) -> None:
        if wire.number not in self._flushing:
            self._flushing.add(wire.number)
            self.loop.call_soon(partial(self._flush, wire))

    def _write(self, wire: Wire, pieces: list[bytes | bytearray]) -> None:
        for frame in frames_of(pieces):
            self.replica.boundary()
            self.cluster.answered(wire, frame, self)
            self.replica.boundary()

    def _flush(self, wire: Wire) -> None:
        self._flushing.discard(wire.number)
        connection = self._connections.get(wire.number)
        if connection is None:
            return
        self._write(wire, connection.take())
        connection.note_unsent(0)
        connection.resume()
        if connection.state is State.FAILED:
            self._end(wire)
            wire.shut()


class Replica:
    """One seat: its disk, its lives."""

    def __init__(self, cluster: "Cluster", broker: BrokerId) -> None:
        self.cluster = cluster
        self.broker = broker
        self.disk = SimDisk()
        self.disk.cost = self._disk_effect
        self.life: Life | None = None
        self.lives = 0
        self.wall_us = 1_700_000_000_000_000
        self.drift_ppm = 0
        self.disk_faults = 0
        """Injected and not yet forgiven: an end of the process is expected."""
        self.restarts_wanted = True
        self.emptied = False
        """It lost its disk: its seat belongs to a data folder that is gone, and it stays out until it is replaced."""
        self.lost_disks: list[SimDisk] = []
        """As they were when they were lost."""
        self.spare: SimDisk | None = None
        """Its disk, while one that was lost is in its place."""
        self.was_a_stranger = False
        """A disk that was lost was in place of its own, so others may have broken the link to it."""
        self.lost_folders: set[bytes] = set()
        """The uuids of the data folders on its lost disks."""
        self.lost_members: set[int] = set()
        """The members of Raft groups that these were."""
        self.went_dark = False
        """Its last end was a power loss."""
        self._fuse: int | None = None
        self._fuse_power = False
        self.boundaries = 0
        self._folder = b""
        """Uuid of the data folder of the life before."""
        self._member = int(broker)
        """The member of Raft groups that it was."""

    def settings(self) -> NodeSettings:
        setup = self.cluster.setup
        host = f"n{self.broker}"
        joins = self.broker >= setup.nodes
        peer = (Endpoint(listener=PEER_LISTENER, host=host, port=9093),) if joins else ()
        return node_settings(
            broker=self.broker,
            initial_voters=tuple(BrokerId(n) for n in range(setup.nodes)),
            cluster_id=self.cluster.cluster_id() if joins else None,
            endpoints=(Endpoint(listener=LISTENER, host=host, port=9092), *peer),
            rack=setup.racks[self.broker % len(setup.racks)] if setup.racks else "",
            admin=f"n{self.broker}:8081",
            offsets_partitions=setup.partitions,
            shard=setup.shard,
            **{**SMALL, **setup.node},
        )

    @property
    def disk_may_fail(self) -> bool:
        """What an end or a notice needs to be no violation."""
        return self.disk_faults > 0 or self.disk.capacity_bytes is not None

    @property
    def up(self) -> bool:
        return self.life is not None

    @property
    def node(self) -> Node:
        assert self.life is not None
        return self.life.node

    # -- life and death --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run the process; harmless when it runs."""
        if self.life is not None:
            return
        self.lives += 1
        self.life = Life(self.cluster, self, self.lives)
        try:
            self.life.node.start()
        except BaseException as error:  # noqa: BLE001  # `escaped` decides what it means
            self.escaped(error)
            return
        self.cluster.started(self)

    def kill(self) -> None:
        """SIGKILL, now."""
        self._end(power=False)

    def power_off(self) -> None:
        """The machine goes dark, now."""
        self._end(power=True)

    def end_at_boundary(self, boundaries: int, *, power: bool, even_down: bool = False) -> None:
        """`kill` or `power_off` at the n-th boundary from now; `even_down`: or of the next life."""
        if self.life is not None or even_down:
            self._fuse, self._fuse_power = boundaries, power

    def lose_disk(self) -> None:
        """The volume is gone, and an empty one is in its place."""
        assert self.life is None
        self.lost_folders.add(self._folder)
        self.lost_members.add(self._member)
        self.lost_disks.append(self.disk)
        self.emptied = True
        self.disk = SimDisk()
        self.disk.cost = self._disk_effect

    def mount_lost(self, disk: SimDisk) -> None:
        """By mistake, a disk that was lost is found, and mounted in place of the new one."""
        assert self.life is None
        assert self.spare is None
        self.was_a_stranger = True
        self.spare, self.disk = self.disk, disk

    def mount_own(self) -> None:
        """The mistake is noticed."""
        assert self.life is None
        if self.spare is not None:
            self.disk, self.spare = self.spare, None

    def forgive(self) -> None:
        """Forget the faults that have not struck yet."""
        self._fuse = None
        self.disk.forgive()
        self.disk_faults = 0

    def boundary(self) -> None:
        """Something is about to leave the process, or has just left it."""
        self.boundaries += 1
        if self._fuse is not None:
            self._fuse -= 1
            if self._fuse < 0:
                self._fuse = None
                raise PowerLoss

    def escaped(self, error: BaseException) -> None:
        """Let out by a call, a job or the start."""
        if isinstance(error, PowerLoss):
            self.cluster.marks.add("cut at a boundary")
            self._end(power=self._fuse_power)
        elif self.disk_may_fail and isinstance(error, StorageFailed | OSError):
            full = self.disk.capacity_bytes is not None
            self.cluster.marks.add("ended by a full disk" if full else "ended by a failing disk")
            self._end(power=False)
        elif not isinstance(error, Exception):
            raise error  # the test's time is over, or somebody ends the run: nothing that the product did
        else:
            text = "".join(traceback.format_exception(error)[-4:])
            self.cluster.violations.append(Violation("process", f"replica {self.broker} ended: {text}"))
            self._end(power=False)

    def _end(self, *, power: bool) -> None:
        life, self.life = self.life, None
        self.went_dark = power
        self._fuse = None
        if life is not None:
            life.loop.kill()
            self._remember(life.node)
        self.disk_faults = 0
        self.disk.forgive()
        if power:
            self.disk.crash(self.cluster.disk_rand)
            self.cluster.net.vanished(self.broker)
        else:
            self.disk.restart()
            self.cluster.net.gone(self.broker)
        self.cluster.wires.gone(self.broker, silent=power)
        self.cluster.ended(self, power=power)

    def _remember(self, node: Node) -> None:
        if node.bootstrap is not None:
            self._folder, self._member = node.identity.replica_uuid, node.host.member

    def _disk_effect(self, operation: str, path: str, size: int) -> None:
        life = self.life
        if life is not None and life.loop.slice_us is not None:
            before_disk_operation()
        if operation != "pread":
            tracer = self.cluster.world.tracer
            if tracer is not None:
                tracer(f"disk {self.broker} {operation} {path} {size}", b"")
            self.boundary()


class Cluster:
    """All replicas of one run. `violations` fills while it runs; `marks` says what was reached."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.world = World(f"{setup.seed}/schedule")
        self.disk_rand = random.Random(f"{setup.seed}/disk")
        self.net: SimNet | MeshNet = (
            MeshNet(self.world, range(setup.nodes), delay_us=setup.link_us)
            if setup.mesh
            else SimNet(self.world, delay_us=setup.link_us)
        )
        self.net.boundary = lambda broker: self.everyone[broker].boundary()
        self.wires = Wires(self.world)
        self.history = History()
        self.violations: list[Violation] = []
        self.moves = False
        """Partitions are moved: a replica stands aside on its way out, and when it comes back. A start of which the
        image says nothing of that yet, or a repeated message of before, has it told as a loss."""
        self.marks: set[str] = set()
        self.orders = RareOrders(setup.seed, self.world, self.marks.add)
        self.factors = {setup.nodes}
        """How many replicas a partition may have been placed with."""
        self.harm = Harm(setup.nodes)
        self.replicas = [Replica(self, BrokerId(n)) for n in range(setup.nodes)]
        """Those that form the cluster. Faults strike these."""
        self.observers = [Replica(self, BrokerId(setup.nodes + n)) for n in range(setup.observers)]
        self.everyone = self.replicas + self.observers
        """By broker id."""
        self._cluster_id: str | None = None
        self.asked: dict[tuple[int, int], tuple[Op, Callable[[bytes], Any]]] = {}
        """(wire, correlation id) -> the operation that waits, and how to read its answer."""
        self.on_started: list[Callable[[Replica], None]] = []
        self.on_ended: list[Callable[[Replica, bool], None]] = []
        self.on_answered: list[Callable[[Op], None]] = []
        self.on_event: list[Callable[[Life, Event], None]] = []

    def trace(self, what: str, data: bytes) -> None:
        if self.world.tracer is not None:
            self.world.tracer(what, data)

    def start(self) -> None:
        """Every process starts within `START_MS`."""
        for replica in self.replicas:
            after_us = self.world.rand.randint(0, START_MS * 1000)
            self.world.at(self.world.now_us + after_us, replica.start)

    def started(self, replica: Replica) -> None:
        self.trace(f"started {replica.broker}", b"")
        assert replica.life is not None
        self.wires.serve(replica.broker, replica.life)
        for call in self.on_started:
            call(replica)

    def ended(self, replica: Replica, *, power: bool) -> None:
        self.trace(f"ended {replica.broker} {power}", b"")
        self.history.crashes += 1
        for call in self.on_ended:
            call(replica, power)

    def answered(self, wire: Wire, frame: bytes, life: Life) -> None:
        """A frame leaves a replica: that is the promise."""
        correlation = int.from_bytes(frame[4:8], "big")
        op, read = self.asked.pop((wire.number, correlation))
        op.answer = read(frame[4:])
        op.answered_us = self.world.now_us
        op.broker = life.replica.broker
        group = life.node.host.groups.get(self.group_of(op.group))
        op.term = group.core.term if group is not None and group.leads else -1
        wire.answer(frame)
        for call in self.on_answered:
            call(op)

    def group_of(self, group_id: str) -> GroupNo:
        """Raft group of a consumer group."""
        return GroupNo(FIRST_OFFSETS_GROUP + partition_of(group_id, self.setup.partitions))

    # -- questions -------------------------------------------------------------------------------------------------

    def cluster_id(self) -> str | None:
        """None before any replica has formed the cluster, as far as is known here."""
        for replica in self.up():
            image = replica.node.image()
            if self._cluster_id is None and image is not None:
                self._cluster_id = image.cluster_id
        return self._cluster_id

    def up(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.life is not None]

    def all_up(self) -> list[Replica]:
        """With the observers."""
        return [replica for replica in self.everyone if replica.life is not None]

    def voters(self) -> list[Replica]:
        """Those whose seat is theirs: they have not lost their disks."""
        return [replica for replica in self.replicas if not replica.emptied]

    def leader_of(self, group: GroupNo) -> Replica | None:
        """The replica that leads in the highest term, if any does."""
        best: tuple[int, Replica] | None = None
        for replica in self.all_up():
            held = replica.node.host.groups.get(group)
            if held is not None and held.leads and (best is None or held.core.term > best[0]):
                best = (held.core.term, replica)
        return None if best is None else best[1]

    def groups(self) -> list[GroupNo]:
        """Numbers of all Raft groups that some replica holds."""
        return sorted({number for replica in self.all_up() for number in replica.node.host.groups})

    def image(self) -> ClusterImage | None:
        """The furthest one."""
        images = [image for replica in self.all_up() if (image := replica.node.image()) is not None]
        return max(images, key=lambda image: image.applied, default=None)

    def holders(self, number: GroupNo) -> list[Replica]:
        """Who is to have a replica of the group once all is settled: a partition may have been moved."""
        image = self.image()
        for topic in () if image is None else image.topics.values():
            for partition in topic.partitions:
                if partition.group == number:
                    found = [self.everyone[broker] for broker in partition.voters]
                    return [replica for replica in found if not replica.emptied]
        return [*self.voters(), *(self.observers if number == CONTROLLER_GROUP else ())]

    def serving(self) -> bool:
        """Every Raft group has a leader that serves."""
        numbers = [GroupNo(FIRST_OFFSETS_GROUP + n) for n in range(self.setup.partitions)]
        return all(
            any((held := replica.node.host.groups.get(number)) is not None and held.serves for replica in self.all_up())
            for number in numbers
        )

    def settled(self) -> bool:
        """All replicas are up, and those with a seat are led, whole, and have applied the same of everything."""
        if len(self.up()) < len(self.replicas) or not self.serving():
            return False
        if any(replica.life is None for replica in self.observers):
            return False
        for number in self.groups():
            applied = set()
            for replica in self.holders(number):
                held = replica.node.host.groups.get(number)
                applied.add(None if held is None else held.applied)
                if held is not None and (held.core.commit != held.applied or held.trouble or held.core.suspended):
                    return False
            if len(applied) != 1:
                return False
        return True
