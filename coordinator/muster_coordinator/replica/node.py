"""One replica, made of ports only: the process (`app`) and the simulator make the same `Node`.

Start: identity and cluster record are read, the record is checked against the configuration; then links come up. When
the cluster is formed (now, or by the record) both WALs are opened, the Raft groups of the record are recovered, and the
replica registers itself; topics' groups follow the controller's image. Everything else is in the parts: `bootstrap`,
`group_manager`, `host`, `shards`, `topic_logs`, `controller_client`, `current_image`, `preferred`, `checkpoints`,
`install`.
"""

from collections.abc import Callable, Iterator

from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import Command, CommandResult, RegisterBroker
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.events import Tell, untold
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, Heartbeat, refusal
from muster_coordinator.groups.stats import GroupMetrics, ShardStats, summed
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, BrokerId, GroupNo
from muster_coordinator.ports import Disk, Loop, Notice, PeerNet, Rand, unnoticed
from muster_coordinator.replica import limits
from muster_coordinator.replica.bootstrap import bootstrap_payload
from muster_coordinator.replica.bootstrap.bootstrap import Bootstrap
from muster_coordinator.replica.bootstrap.formation import Expectation, Formation, Fresh
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, load_cluster, open_identity
from muster_coordinator.replica.controller.controller_client import ControllerClient
from muster_coordinator.replica.controller.current_image import COMMITS, TOPICS, CurrentImage
from muster_coordinator.replica.controller.feature_level import FeatureLevel
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.maintenance.disk_space import DiskSpace, DiskStatus
from muster_coordinator.replica.maintenance.hand_over import HandOver
from muster_coordinator.replica.maintenance.preferred import Preferred
from muster_coordinator.replica.maintenance.retention import Retention
from muster_coordinator.replica.maintenance.scrub import Scrub
from muster_coordinator.replica.multiraft import payloads
from muster_coordinator.replica.multiraft.host import Host, check_trusted
from muster_coordinator.replica.multiraft.leaders import Leadership
from muster_coordinator.replica.multiraft.payloads import Kind
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.status import GroupStatus, InstallStatus, ScrubStatus, WorkDone, group_status
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry, stopped_entry
from muster_coordinator.replica.multiraft.wal_writer import WalStatus
from muster_coordinator.replica.partitions.surface import LocalLog
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots.install import SnapshotInstalls

REGISTER_RETRY_MS = 500


class Node:
    """Implements `surface.Surface` and `ports.PeerSink`. All calls on the loop."""

    def __init__(
        self,
        settings: NodeSettings,
        loop: Loop,
        disk: Disk,
        net: PeerNet,
        rand: Rand,
        notice: Notice = unnoticed,
        tell: Tell = untold,
    ) -> None:
        self._notice = notice
        self.settings = settings
        self.loop = loop
        self.rand = rand
        self.broker = settings.broker
        self._disk = disk
        self._net = net
        self.host = Host(loop, net, settings.broker, fatal=self._fatal, offered=self._offered, timing=settings.timing)
        self.host.tell = tell
        self.bootstrap: Bootstrap | None = None
        self.group_manager: GroupManager | None = None
        """Set once the cluster is formed."""
        self._client: ControllerClient | None = None
        self._current: CurrentImage | None = None
        self._current_topics: CurrentImage | None = None
        self._installs: SnapshotInstalls | None = None
        self._scrub: Scrub | None = None
        self._space: DiskSpace | None = None
        self.preferred: Preferred | None = None
        self._caught_up = False
        self._registered = False
        self._registration_error = ""
        self.failure: BaseException | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Blocking: reads and writes small files, recovers when formed. Raises `StartRefused`, `Corruption`,
        `UnsupportedFormat`, `StorageFailed`."""
        settings = self.settings
        self.identity = open_identity(self._disk, settings.broker, self.rand)
        phase, record = load_cluster(self._disk)
        formation = Formation(
            broker=settings.broker,
            replica_uuid=self.identity.replica_uuid,
            expects=Expectation(
                settings.cluster_id or "", tuple(sorted(settings.initial_voters)), settings.offsets_partitions
            ),
            phase=phase,
            record=record,
            fresh=Fresh(_cluster_id(self.rand), self.rand.randbytes(16)),
        )
        self.bootstrap = Bootstrap(
            self.loop,
            self._disk,
            self._net,
            self.identity,
            formation,
            formed=self._formed,
            all_formed=self._all_formed,
            fatal=self._fatal,
        )
        self.bootstrap.start()
        self._net.start(self)

    def _fatal(self, error: BaseException) -> None:
        """Nothing may go on after this: the exception ends the process that runs the loop."""
        self.failure = error
        raise error

    def _formed(self, record: ClusterRecord) -> None:
        assert self.bootstrap is not None
        group_manager = GroupManager(
            self.settings,
            self.loop,
            self._disk,
            self.rand,
            self.host,
            self.identity,
            record,
            born=self._born,
            notice=self._notice,
        )
        self.group_manager = group_manager
        self._client = ControllerClient(self.loop, self._net, self.broker, self.host.leaders, group_manager.controller)
        self._current = CurrentImage(self.loop, self._client, group_manager.controller, COMMITS)
        self._current_topics = CurrentImage(self.loop, self._client, group_manager.controller, TOPICS)
        group_manager.controller.watch(self._current.moved)
        group_manager.controller.watch(self._current_topics.moved)
        self._installs = SnapshotInstalls(self.loop, self._disk, self._net, self.host, group_manager, self._notice)
        self.preferred = Preferred(self.loop, self.host, group_manager, self.settings)
        group_manager.start()
        self._installs.start()
        self.host.heartbeats.start()
        self.preferred.start()
        FeatureLevel(self.loop, self.host, group_manager.controller, self.settings.feature_finalize_ms).start()
        Retention(self.loop, self.host, group_manager, self.settings).start()
        self._scrub = Scrub(self.loop, self._disk, group_manager, self.settings.scrub_rate)
        self._scrub.start()
        self._space = DiskSpace(self.loop, self._disk, self.host, self.settings)
        self._space.start()
        HandOver(self.loop, self.host, self.preferred).start()
        self._gossip()
        for peer in self.bootstrap.linked():
            if self.bootstrap.trusts(peer):
                self.host.peer_up(peer)
        self._register()

    def _all_formed(self) -> None:
        """Every voter can vote: in a fresh cluster the preferred leaders campaign at once, the others wait."""
        if self.preferred is not None:
            self.preferred.all_formed()

    def _born(self, group: RaftGroup) -> None:
        assert self.preferred is not None
        self.preferred.born(group)

    def _gossip(self) -> None:
        self.loop.call_at(self.loop.monotonic_ms() + limits.GOSSIP_FULL_MS, self._gossip)
        self.host.gossip_table()

    def _register(self) -> None:
        """Register this broker, and retry until it is registered once since the start. Registering also clears a
        draining mark (architecture "Drain")."""
        if self._registered:
            return
        command = RegisterBroker(
            broker=self.broker,
            replica_uuid=self.identity.replica_uuid,
            incarnation=self.identity.incarnation,
            endpoints=self.settings.endpoints,
            admin=self.settings.admin,
            feature_max=self.settings.feature_max,
        )

        def done(result: CommandResult) -> None:
            self._registered = result.error == Code.NONE
            if self._registered:
                self._registration_error = ""
                return
            if result.error not in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT):
                self._registration_error = result.message
            self.loop.call_at(self.loop.monotonic_ms() + REGISTER_RETRY_MS, self._register)

        self.submit(command, deadline_ms=self.loop.monotonic_ms() + limits.FORWARD_TIMEOUT_MS, done=done)

    # -- ports.PeerSink --------------------------------------------------------------------------------------------

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        assert self.bootstrap is not None
        self.bootstrap.peer_up(peer, hello)
        if self.group_manager is not None and self.bootstrap.trusts(peer):
            self.host.peer_up(peer)

    def peer_down(self, peer: BrokerId) -> None:
        assert self.bootstrap is not None
        self.bootstrap.peer_down(peer)
        if self.group_manager is not None:
            self.host.peer_down(peer)
            assert self._client is not None
            assert self._installs is not None
            self._client.peer_down(peer)
            self._installs.peer_down(peer)

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        """Raises `WireError` for a malformed payload or a stranger's: the caller closes the link."""
        assert self.bootstrap is not None
        kind = payloads.kind_of(payload)
        if kind is Kind.BOOTSTRAP_STATE:
            self.bootstrap.heard(peer, bootstrap_payload.decode_bootstrap_state(payload))
            return
        if self.group_manager is None:
            return  # a peer that formed first; it repeats what matters
        check_trusted(self.bootstrap.trusts(peer), peer)
        self._from_member(peer, kind, payload)

    def _from_member(self, peer: BrokerId, kind: Kind, payload: bytes) -> None:
        host, client, installs = self.host, self._client, self._installs
        assert client is not None
        assert installs is not None
        match kind:
            case Kind.RAFT:
                host.raft_payload(peer, payload)
            case Kind.HEARTBEAT:
                host.heartbeats.received(peer, payloads.decode_heartbeat(payload))
            case Kind.HEARTBEAT_ACK:
                host.heartbeat_ack(peer, payloads.decode_heartbeat_ack(payload))
            case Kind.LEADERS:
                host.leaders_heard(peer, payloads.decode_leaders(payload))
            case Kind.COMMAND:
                client.forwarded(peer, payload)
            case Kind.COMMAND_RESULT:
                client.result(peer, payload)
            case _:
                installs.received(peer, kind, payload)

    def _offered(self, group: GroupNo) -> None:
        assert self._installs is not None
        self._installs.offered(group)

    # -- surface.Surface -------------------------------------------------------------------------------------------

    def image(self) -> ClusterImage | None:
        return None if self.group_manager is None else self.group_manager.controller.machine.cluster

    def when_image_current(self, call: Callable[[bool], None]) -> None:
        if self._current is None:
            call(False)
        else:
            self._current.wait(call)

    def when_topics_current(self, call: Callable[[bool], None]) -> None:
        if self._current_topics is None:
            call(False)
        else:
            self._current_topics.wait(call)

    def leadership(self, group: GroupNo) -> Leadership:
        return self.host.leaders.of(group)

    def group_status(self, group: GroupNo) -> GroupStatus | None:
        held = self.host.groups.get(group)
        if held is None or self.group_manager is None:
            return None
        return group_status(held, self.group_manager.damage.files().get(group, ()))

    def free_bytes(self) -> int:
        return -1 if self._space is None else self._space.free_bytes

    def disk_status(self) -> DiskStatus:
        """How much room there is where the data lies, and what that means."""
        return DiskStatus() if self._space is None else self._space.status()

    def low_disks(self) -> frozenset[BrokerId]:
        """Replicas that say that their disks are low, this one included."""
        own = (self.broker,) if self.host.disk_low else ()
        return frozenset((*self.host.low_peers, *own))

    def alive(self, broker: BrokerId) -> bool:
        return broker == self.broker or self._net.is_up(broker)

    def when_leader_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        self.host.leaders.when_known(group, wait_ms, call)

    def group_request(
        self,
        partition: int,
        request: GroupRequest,
        context: RequestContext,
        done: Callable[[GroupAnswer], None],
    ) -> None:
        shard = None if self.group_manager is None else self.group_manager.shards.get(partition)
        if shard is None:
            code = Code.NOT_COORDINATOR if self.group_manager is not None else Code.COORDINATOR_NOT_AVAILABLE
            done(refusal(request, code))
        else:
            shard.request(request, context, done)

    def heartbeat_at_once(self, partition: int, request: Heartbeat, times: int) -> Code | None:
        shard = None if self.group_manager is None else self.group_manager.shards.get(partition)
        return None if shard is None else shard.heartbeat_at_once(request, times)

    def local_log(self, group: GroupNo) -> LocalLog | None:
        return None if self.group_manager is None else self.group_manager.logs.get(group)

    def offsets_led(self) -> tuple[int, ...]:
        if self.group_manager is None:
            return ()
        return tuple(
            partition
            for partition, shard in self.group_manager.shards.items()
            if shard.group is not None and shard.group.serves
        )

    def submit(self, command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        if self._client is None:
            done(CommandResult(Code.NOT_CONTROLLER, "this replica is not in a cluster yet"))
        else:
            self._client.submit(command, deadline_ms=deadline_ms, done=done)

    def producer_id(self, done: Callable[[int], None]) -> None:
        if self._client is None:
            done(-1)
        else:
            self._client.producer_id(self.image(), done)

    # -- for operators ---------------------------------------------------------------------------------------------

    def not_ready(self) -> tuple[str, ...]:
        """Reasons against readiness (decision 30); empty when ready."""
        if self.bootstrap is None:
            return ("starting",)
        if self.group_manager is None:
            return (self.bootstrap.formation.status or "not in a cluster yet",)
        reasons = []
        if self.bootstrap.formation.out:
            reasons.append(self.bootstrap.formation.status)
        if self.host.leaders.of(CONTROLLER_GROUP).leader is None:
            reasons.append("no controller leader is known")
        image = self.image()
        if image is None:
            reasons.append("the controller log is not applied yet")
        controller = self.host.groups.get(CONTROLLER_GROUP)
        if controller is not None and controller.trouble:
            reasons.append(f"the controller group has no state here: {controller.trouble}")
        if not self._registered:
            reasons.append(self._registration_error or "not registered yet")
        elif image is not None and self.broker not in image.brokers:
            reasons.append("its registration is not applied here yet")
        behind = 0 if self._caught_up else self.group_manager.not_caught_up()
        if behind == 0:
            self._caught_up = True  # once since the start: a new topic's partitions make nobody unready
        else:
            reasons.append(f"{behind} Raft groups have not caught up since the start")
        if reasons:
            reasons += self.bootstrap.refused()
        return tuple(reasons)

    def local_groups(self) -> Iterator[GroupStatus]:
        """Raft groups with a voter here, by number; each as it is when it is asked for."""
        damaged = {} if self.group_manager is None else self.group_manager.damage.files()
        for number in sorted(self.host.groups):
            group = self.host.groups.get(number)
            if group is not None:
                yield group_status(group, damaged.get(number, ()))

    def group_views(self, partition: int) -> Iterator[GroupMetrics]:
        """Consumer groups coordinated here in an offsets partition; ends early when it is led elsewhere."""
        held = None if self.group_manager is None else self.group_manager.shards.get(partition)
        if held is None:
            return
        for view in held.shard.views():
            if held.group is None or not held.group.serves:
                return
            yield view

    def committed(self, partition: int, group: str) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, offset) of a group that is coordinated here."""
        held = None if self.group_manager is None else self.group_manager.shards.get(partition)
        return iter(()) if held is None else iter(held.shard.committed(group))

    def log_bounds(self, group: GroupNo) -> tuple[int, int] | None:
        """(first offset, offset after the last one applied) of a log that has a replica here."""
        state = None if self.group_manager is None else self.group_manager.states.get(group)
        return None if state is None else (state.log_start, state.next_offset)

    def leaderships(self) -> int:
        """Raft groups led here."""
        return sum(1 for group in self.host.groups.values() if group.leads)

    def wals(self) -> list[WalStatus]:
        """How full each WAL is; empty until there are any."""
        return [wal_writer.status() for wal_writer in self.host.wal_writers]

    def scrub_status(self) -> ScrubStatus:
        """How far stored segments were checked, and what came of it."""
        if self._scrub is None or self._installs is None or self.group_manager is None:
            return ScrubStatus()
        repairs = self._installs.repairs
        return ScrubStatus(
            self._scrub.bytes_checked,
            self._scrub.passes,
            len(self.group_manager.damage.found),
            repairs.repaired,
            repairs.failures,
        )

    def stopped_entries(self) -> list[StoppedEntry]:
        """Of every Raft group here that stopped at an entry it could not apply."""
        found = (stopped_entry(self.host.groups[number]) for number in sorted(self.host.groups))
        return [one for one in found if one is not None]

    def skip_entry(self, group: GroupNo, done: Callable[[bool], None]) -> bool:
        """`RaftGroup.pass_over`, for a group of `stopped_entries`."""
        held = self.host.groups.get(group)
        return held is not None and held.pass_over(done)

    def stop_skipping(self, group: GroupNo) -> None:
        """Nobody waits for the outcome any more."""
        held = self.host.groups.get(group)
        if held is not None:
            held.give_up()

    def install_status(self) -> InstallStatus:
        """What this replica has fetched of others' checkpoints and segments in this life."""
        if self._installs is None:
            return InstallStatus(0, 0, 0, 0, 0)
        done = self._installs
        return InstallStatus(
            done.installed.total(), done.bytes_received, done.bytes_reused, done.source.bytes_sent, done.given_up
        )

    def work_done(self) -> WorkDone:
        """What this replica did in this life."""
        host, group_manager = self.host, self.group_manager
        return WorkDone(
            turns=host.turns,
            proposals_refused=host.refused_busy,
            checkpoints=0 if group_manager is None else group_manager.checkpoints.made,
            flushes=0 if group_manager is None else group_manager.checkpoints.flushes,
            late_timers=host.deadlines.stalls,
            group_requests=0
            if group_manager is None
            else sum(shard.requests for shard in group_manager.shards.values()),
        )

    def group_stats(self) -> ShardStats:
        """What this replica did for consumer groups while it coordinated them, in this life."""
        return summed(
            () if self.group_manager is None else [held.shard.stats for held in self.group_manager.shards.values()]
        )

    def transfer(self, group: GroupNo, target: BrokerId) -> bool:
        """Start handing leadership of `group` to `target`. False: not leader here, or the target cannot have it."""
        held = self.host.groups.get(group)
        return held is not None and self._net.is_up(target) and held.transfer(target)

    def state_hash(self, group: GroupNo) -> str | None:
        """Hex digest of the durable state of a group; equal on all replicas at the same applied index."""
        return None if self.group_manager is None else self.group_manager.state_hash(group)

    def offsets_group(self, partition: int) -> GroupNo:
        return GroupNo(FIRST_OFFSETS_GROUP + partition)


def _cluster_id(rand: Rand) -> str:
    """22 characters of url-safe base64 that never look like an option."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    first = letters[rand.randrange(0, 62)]
    return first + "".join(letters[rand.randrange(0, 64)] for _ in range(20)) + letters[rand.randrange(0, 4) * 16]
