"""The parts of a replica that need the cluster record: they are made together, when the cluster is formed.

Problem: most parts of a replica (the Raft groups, the client of the controller, installs, maintenance) need the cluster
record, and one another. Mechanism: `node` makes one `FormedNode` when the cluster is formed; before, none of these
parts exists, so none has to work without another. This replica's table of leaders is told from here, too.

What it does not do: form the cluster (`bootstrap`), decide whether a peer is trusted, or answer requests before the
cluster is formed (`node`).
"""

from collections.abc import Callable

from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, MemberNo
from muster_coordinator.ports import Disk, Loop, Notice, PeerNet, Rand
from muster_coordinator.redis_streams.server import StreamServer
from muster_coordinator.replica import limits
from muster_coordinator.replica.bootstrap.formation import Candidate
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Identity, Voter
from muster_coordinator.replica.controller.controller_client import ControllerClient
from muster_coordinator.replica.controller.current_image import COMMITS, MOVED_AWAY, TOPICS, CurrentImage
from muster_coordinator.replica.controller.feature_level import FeatureLevel
from muster_coordinator.replica.controller.registration import Registration, registration_of
from muster_coordinator.replica.controller.seats import Seats
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.maintenance.balancer import Balancer
from muster_coordinator.replica.maintenance.cleaner import Cleaner
from muster_coordinator.replica.maintenance.disk_space import DiskSpace
from muster_coordinator.replica.maintenance.full_targets import FullTargets
from muster_coordinator.replica.maintenance.hand_over import HandOver
from muster_coordinator.replica.maintenance.membership import Membership
from muster_coordinator.replica.maintenance.preferred import Preferred
from muster_coordinator.replica.maintenance.retention import Retention
from muster_coordinator.replica.maintenance.scrub import Scrub
from muster_coordinator.replica.maintenance.weights import WeightReports
from muster_coordinator.replica.multiraft import payloads
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.payloads import Kind
from muster_coordinator.replica.multiraft.status import InstallStatus, ScrubStatus
from muster_coordinator.replica.partitions.moved_away import MovedAway
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots.install import SnapshotInstalls
from muster_coordinator.replica.transactions.marker_delivery import MarkerDelivery
from muster_coordinator.replica.transactions.verification import Verifications


class FormedNode:
    """See the module. All calls are made on the loop."""

    def __init__(
        self,
        settings: NodeSettings,
        loop: Loop,
        disk: Disk,
        net: PeerNet,
        rand: Rand,
        host: Host,
        identity: Identity,
        record: ClusterRecord,
        notice: Notice,
        seats_told: Callable[[tuple[Voter, ...]], None],
        streams: StreamServer,
    ) -> None:
        """Blocking: recovers all groups of the record. Raises `Corruption`, `UnsupportedFormat`, `StorageFailed`."""
        self._settings = settings
        self._loop = loop
        self._host = host
        self._identity = identity
        self._record = record
        host.member = record.member_of(settings.broker)
        machine = ControllerMachine()
        self.preferred = Preferred(loop, host, machine, settings)
        born = self.preferred.born
        self.group_manager = GroupManager(
            settings, loop, disk, rand, host, identity, record, machine, born=born, notice=notice, streams=streams
        )
        controller = self.group_manager.controller
        self.client = ControllerClient(loop, net, settings.broker, host.leaders, controller)
        self.current = CurrentImage(loop, self.client, controller, COMMITS)
        self.current_topics = CurrentImage(loop, self.client, controller, TOPICS)
        controller.watch(self.current.moved)
        controller.watch(self.current_topics.moved)
        host.throttle.follow(machine.cluster)
        controller.watch(lambda: host.throttle.follow(machine.cluster))
        self.markers = MarkerDelivery(
            loop, net, settings.broker, host.leaders, self.group_manager, self.current_topics.wait
        )
        self.verifications = Verifications(loop, net, settings.broker, host.leaders, self.group_manager)
        services = self.group_manager.transaction_services
        services.producer_id, services.send_marker = self._producer_id, self.markers.send
        self.installs = SnapshotInstalls(loop, disk, net, host, self.group_manager, notice)
        host.offered = self.installs.offered
        self.scrub = Scrub(loop, disk, self.group_manager, settings.scrub_rate)
        self.cleaner = Cleaner(loop, disk, host, self.group_manager, self.installs, settings)
        self.space = DiskSpace(loop, disk, host, settings)
        self.weights = WeightReports(loop, host, self.group_manager, self.space, settings)
        at_once = settings.moves_at_once
        self.membership = Membership(loop, host, machine, self.client.submit, at_once)
        self.balancer = Balancer(
            loop,
            host,
            machine,
            self.client.submit,
            at_once,
            settings.balancer_quiet_ms,
            settings.decommission_redirect_ms,
            self.weights.known,
        )
        confirmed = CurrentImage(loop, self.client, controller, MOVED_AWAY)
        self._moved_away = MovedAway(loop, host, self.group_manager, confirmed.wait)
        controller.watch(confirmed.moved)
        controller.watch(self._moved_away.look)
        controller.watch(self.cleaner.moved)
        self._seats = Seats(controller, net, seats_told, notice)
        self._caught_up = False
        self._registration = Registration(registration_of(settings, identity), loop, self.client, self.image)
        controller.watch(self._registration.tell_rack)

    def start(self, peers: list[BrokerId]) -> None:
        """Start all parts. `peers`: the trusted peers whose links are up already."""
        loop, host, settings = self._loop, self._host, self._settings
        self.group_manager.start()
        self.installs.start()
        host.heartbeats.start()
        self.preferred.start()
        FeatureLevel(loop, host, self.group_manager.controller, settings.feature_finalize_ms).start()
        Retention(loop, host, self.group_manager, settings).start()
        self.scrub.start()
        self.cleaner.moved()
        self.space.start()
        HandOver(loop, host, self.preferred).start()
        self.membership.start()
        controller = self.group_manager.controller.machine
        FullTargets(loop, host, controller, self.client.submit, settings.room_timeout_ms).start()
        self.balancer.start()
        self.weights.start()
        self._seats.start()
        self._gossip()
        for peer in peers:
            self.peer_up(peer, self._record.member_of(peer))
        self._registration.register()

    def _producer_id(self, done: Callable[[int], None]) -> None:
        self.client.producer_id(self.image(), done)

    def _gossip(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + limits.GOSSIP_FULL_MS, self._gossip)
        self._host.gossip_table()

    # -- peers -----------------------------------------------------------------------------------------------------

    def peer_up(self, peer: BrokerId, member: MemberNo) -> None:
        """The link to a trusted peer is new, or the peer is trusted from now on."""
        self._host.peer_up(peer, member)

    def candidate(self, asking: Candidate) -> None:
        """A peer with an empty folder asks for a seat."""
        self._seats.candidate(asking)

    def peer_down(self, peer: BrokerId) -> None:
        self._host.peer_down(peer)
        self.client.peer_down(peer)
        self.markers.peer_down(peer)
        self.verifications.peer_down(peer)
        self.installs.peer_down(peer)

    def received(self, peer: BrokerId, kind: Kind, payload: bytes) -> None:
        """A message of a trusted peer. Raises `WireError` if it is malformed."""
        host = self._host
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
                self.client.forwarded(peer, payload)
            case Kind.COMMAND_RESULT:
                self.client.result(peer, payload)
            case Kind.MARKERS:
                self.markers.received(peer, payload)
            case Kind.MARKERS_RESULT:
                self.markers.result(peer, payload)
            case Kind.VERIFY:
                self.verifications.received(peer, payload)
            case Kind.VERIFY_RESULT:
                self.verifications.result(peer, payload)
            case Kind.WEIGHTS:
                self.weights.received(peer, payload)
            case Kind.ELECT:
                self.preferred.asked(payloads.decode_elect(payload))
            case _:
                self.installs.received(peer, kind, payload)

    # -- questions -------------------------------------------------------------------------------------------------

    def image(self) -> ClusterImage | None:
        """The cluster image; None before the first entry of the controller's log is applied."""
        return self.group_manager.controller.machine.cluster

    def not_ready(self) -> list[str]:
        """Why this replica is not ready (decision 30), apart from reasons of the bootstrap; empty when it is."""
        reasons = []
        if self._host.leaders.of(CONTROLLER_GROUP).leader is None:
            reasons.append("no controller leader is known")
        image = self.image()
        if image is None:
            reasons.append("the controller log is not applied yet")
        controller = self.group_manager.controller.group
        if controller.trouble:
            reasons.append(f"the controller group has no state here: {controller.trouble}")
        if lacks := self._registration.lacks():
            reasons.append(lacks)
        behind = 0 if self._caught_up else self.group_manager.not_caught_up()
        if behind == 0:
            self._caught_up = True  # stays True: the partitions of a new topic must not make a replica unready
        else:
            reasons.append(f"{behind} Raft groups have not caught up since the start")
        return reasons

    def scrub_status(self) -> ScrubStatus:
        """Counts of the background check of segments, and of repairs."""
        repairs = self.installs.repairs
        return ScrubStatus(
            self.scrub.bytes_checked,
            self.scrub.passes,
            len(self.group_manager.damage.found),
            repairs.repaired,
            repairs.failures,
        )

    def install_status(self) -> InstallStatus:
        """Counts of snapshot installs since the start."""
        done = self.installs
        return InstallStatus(
            done.installed.total(), done.bytes_received, done.bytes_reused, done.source.bytes_sent, done.given_up
        )
