"""One replica, made of ports only: the process (`app`) and the simulator make the same `Node`.

At the start the identity and the cluster record are read, and the record is compared with the configuration; then links
are opened. When the cluster is formed, or was by the record, both WALs are opened, the Raft groups of the record are
recovered, and the replica registers itself (`formed`); the groups of topics follow from the controller's image
(`group_manager`). Requests that come before are answered as by a replica that belongs to no cluster. What it does not
do: serve listeners, or decide when the process ends (`app`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from itertools import chain

from muster_coordinator.context import RequestContext
from muster_coordinator.controller.balancing import Planner
from muster_coordinator.controller.commands import Command, CommandResult
from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.errors import Code
from muster_coordinator.events import Tell, untold
from muster_coordinator.groups.requests import GroupAnswer, GroupRequest, Heartbeat, TxnOffsetCommit, refusal
from muster_coordinator.groups.stats import GroupMetrics, ShardStats, summed
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, BrokerId, GroupNo, MemberNo
from muster_coordinator.links import channels
from muster_coordinator.ports import Disk, Loop, Notice, PeerNet, Rand, unnoticed
from muster_coordinator.redis_streams.lag import UNKNOWN as UNKNOWN_LAG
from muster_coordinator.redis_streams.lag import Records
from muster_coordinator.redis_streams.server import NoServer, StreamServer
from muster_coordinator.replica import limits
from muster_coordinator.replica.bootstrap import bootstrap_payload
from muster_coordinator.replica.bootstrap.bootstrap import Bootstrap
from muster_coordinator.replica.bootstrap.formation import Candidate, Expectation, Formation, Fresh
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Phase, Voter, load_cluster, open_identity
from muster_coordinator.replica.bootstrap.recovery_file import refuse_unfinished
from muster_coordinator.replica.controller.registration import registration_of
from muster_coordinator.replica.formed import FormedNode
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.maintenance.balancer import BalancerStatus, State, Weighed
from muster_coordinator.replica.maintenance.disk_space import DiskStatus
from muster_coordinator.replica.member_net import MemberNet
from muster_coordinator.replica.multiraft import payloads
from muster_coordinator.replica.multiraft.early_leaders import EarlyLeaders
from muster_coordinator.replica.multiraft.host import Host, check_trusted
from muster_coordinator.replica.multiraft.leaders import Leadership
from muster_coordinator.replica.multiraft.payloads import Kind
from muster_coordinator.replica.multiraft.status import (
    CleanerStatus,
    CopyWithoutRoom,
    GroupStatus,
    InstallStatus,
    LateMarker,
    OpenTransactions,
    ScrubStatus,
    TransactionStatus,
    WorkDone,
    group_status,
)
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry, stopped_entry
from muster_coordinator.replica.multiraft.wal_writer import WalStatus
from muster_coordinator.replica.partitions.shards import Verify
from muster_coordinator.replica.partitions.surface import LocalLog
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import Answer
from muster_coordinator.transactions.requests import Request as TransactionRequest


class Node:
    """Implements `surface.Surface`. All calls are made on the loop."""

    def __init__(
        self,
        settings: NodeSettings,
        loop: Loop,
        disk: Disk,
        net: PeerNet,
        rand: Rand,
        notice: Notice = unnoticed,
        tell: Tell = untold,
        streams: StreamServer | None = None,
    ) -> None:
        """`streams`: where topics in Redis are; None: this replica knows none."""
        self._notice = notice
        self._streams = streams or NoServer()
        self.settings = settings
        self.loop = loop
        self.rand = rand
        self.broker = settings.broker
        self._disk = disk
        self._net = net
        self._member_net = MemberNet(net)
        self.host = Host(loop, self._member_net, settings.broker, fatal=self._fatal, timing=settings.timing)
        self.host.tell = tell
        self.bootstrap: Bootstrap | None = None
        """None before `start`."""
        self.formed: FormedNode | None = None
        """None while this replica belongs to no cluster."""
        self.failure: BaseException | None = None
        self._broke_ms: dict[BrokerId, int | None] = {}
        """When the last link to a peer was given up, None while it is not; one entry for each broker id ever met."""
        self._started_ms = loop.monotonic_ms()
        """Until it has had time to link, whoever is registered counts as met: otherwise a replica that was just started
        would tell its clients that all others are gone."""
        self._early = EarlyLeaders()

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Blocking: reads and writes small files, and recovers the groups if the cluster is formed. Raises
        `StartRefused`, `Corruption`, `UnsupportedFormat`, `StorageFailed`."""
        settings = self.settings
        refuse_unfinished(self._disk)
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
            joined=self.identity.joined,
            registration=registration_of(settings, self.identity),
            formed_before=settings.cluster_formed,
        )
        bootstrap = Bootstrap(
            self.loop,
            self._disk,
            self._net,
            self.identity,
            formation,
            formed=self._formed,
            all_formed=self._all_formed,
            renewed=self._renewed,
            candidate=self._candidate,
            gone=self._member_net.fall_silent,
            fatal=self._fatal,
        )
        self.bootstrap = bootstrap
        bootstrap.start()
        self._net.start(_Peers(self, bootstrap))

    def _fatal(self, error: BaseException) -> None:
        """Raise `error` out of the loop, which ends the process: this replica must not continue."""
        self.failure = error
        raise error

    def _formed(self, record: ClusterRecord, peers: list[BrokerId]) -> None:
        self.formed = FormedNode(
            self.settings,
            self.loop,
            self._disk,
            self._member_net,
            self.rand,
            self.host,
            self.identity,
            record,
            self._notice,
            self._seats_told,
            self._streams,
        )
        self.formed.start(peers)

    def _all_formed(self) -> None:
        """Every voter has formed, so elections can succeed: in a new cluster the preferred leaders campaign at once."""
        if self.formed is not None:
            self.formed.preferred.all_formed()

    def _seats_told(self, seats: tuple[Voter, ...]) -> None:
        if self.bootstrap is not None:
            self.bootstrap.seats_told(seats)

    def _renewed(self) -> None:
        """The record names other folders than before: end what was trusted and is not any more, begin what is now."""
        bootstrap = self.bootstrap
        if bootstrap is not None:
            for peer in bootstrap.linked():
                self.judge_link(peer, bootstrap.member_of(peer), is_new=False)

    def judge_link(self, peer: BrokerId, member: MemberNo | None, *, is_new: bool) -> None:
        """The link to `peer` is to this member, or to nobody who is trusted. A link that replaces one that just broke
        may lead to another folder: then the member before is gone, although no `peer_down` told so."""
        formed = self.formed
        if formed is None:
            return
        known = self.host.peers.get(peer)
        if known is not None and known != member:
            formed.peer_down(peer)
        early = self._early.take(peer) if member is not None or is_new else ()
        if member is not None and (is_new or known != member):
            formed.peer_up(peer, member)
            if not is_new:
                self.host.leaders_heard(peer, early)

    def heard_early(self, peer: BrokerId, kind: Kind, payload: bytes) -> None:
        """A message of a peer that is trusted as soon as its folder is in the record; most are repeated. Raises
        `WireError` if it is malformed."""
        if kind is Kind.LEADERS:
            self._early.keep(peer, payloads.decode_leaders(payload))

    def link_gone(self, peer: BrokerId) -> None:
        """What the peer said over it counts no more."""
        self._early.take(peer)
        if self.formed is not None:
            self.formed.peer_down(peer)

    def _candidate(self, asking: Candidate) -> None:
        if self.formed is not None:
            self.formed.candidate(asking)

    @property
    def group_manager(self) -> GroupManager | None:
        """None while this replica belongs to no cluster."""
        return None if self.formed is None else self.formed.group_manager

    # -- surface.Surface -------------------------------------------------------------------------------------------

    def image(self) -> ClusterImage | None:
        return None if self.formed is None else self.formed.image()

    def when_image_current(self, call: Callable[[bool], None]) -> None:
        if self.formed is None:
            call(False)
        else:
            self.formed.current.wait(call)

    def when_topics_current(self, call: Callable[[bool], None]) -> None:
        if self.formed is None:
            call(False)
        else:
            self.formed.current_topics.wait(call)

    def leadership(self, group: GroupNo) -> Leadership:
        return self.host.leaders.of(group)

    def elect_preferred(self, group: GroupNo) -> None:
        leader = self.host.leaders.of(group).leader
        if self.formed is None or leader is None:
            return
        if leader == self.broker:
            self.formed.preferred.asked(group)
        else:
            self._member_net.send(leader, channels.CONTROL, payloads.encode_elect(group))

    def group_status(self, group: GroupNo) -> GroupStatus | None:
        held, formed = self.host.groups.get(group), self.formed
        if held is None or formed is None:
            return None
        return group_status(held, formed.group_manager.damage.files().get(group, ()))

    def lack_of_room(self, group: GroupNo, broker: BrokerId) -> str:
        if broker in self.low_disks():
            return f"the disk of broker {broker} is low"
        return "" if self.formed is None else self.formed.weights.lack_of_room(group, broker)

    def free_bytes(self) -> int:
        return -1 if self.formed is None else self.formed.space.free_bytes

    def disk_status(self) -> DiskStatus:
        """Free space of the data folder's disk, and whether it is low or full."""
        return DiskStatus() if self.formed is None else self.formed.space.status()

    def low_disks(self) -> frozenset[BrokerId]:
        """Replicas that say that their disks are low, this one included."""
        own = (self.broker,) if self.host.disk_low else ()
        return frozenset((*self.host.low_peers, *own))

    def alive(self, broker: BrokerId) -> bool:
        return broker == self.broker or self._net.is_up(broker)

    def alive_lately(self, broker: BrokerId) -> bool:
        broke_ms = self._broke_ms.get(broker, self._started_ms)
        if broke_ms is None or self.alive(broker):
            return True
        return self.loop.monotonic_ms() - broke_ms < limits.BROKER_LISTED_MS

    def link_told(self, peer: BrokerId, *, is_up: bool) -> None:
        """A link to a peer is up, or was given up."""
        self._broke_ms[peer] = None if is_up else self.loop.monotonic_ms()

    def when_leader_known(self, group: GroupNo, wait_ms: int, call: Callable[[], None]) -> None:
        self.host.leaders.when_known(group, wait_ms, call)

    def group_request(
        self,
        partition: int,
        request: GroupRequest,
        context: RequestContext,
        done: Callable[[GroupAnswer], None],
    ) -> None:
        shard = None if self.formed is None else self.formed.group_manager.shards.get(partition)
        if shard is None:
            code = Code.NOT_COORDINATOR if self.formed is not None else Code.COORDINATOR_NOT_AVAILABLE
            done(refusal(request, code))
        else:
            shard.request(request, context, done)

    def transactional_commit(
        self,
        partition: int,
        request: TxnOffsetCommit,
        context: RequestContext,
        verify: Verify,
        done: Callable[[GroupAnswer], None],
    ) -> None:
        shard = None if self.formed is None else self.formed.group_manager.shards.get(partition)
        if shard is None:
            self.group_request(partition, request, context, done)
        else:
            shard.transactional_commit(request, context, verify, done)

    def heartbeat_at_once(self, partition: int, request: Heartbeat, times: int) -> Code | None:
        shard = None if self.formed is None else self.formed.group_manager.shards.get(partition)
        return None if shard is None else shard.heartbeat_at_once(request, times)

    def local_log(self, group: GroupNo) -> LocalLog | None:
        return None if self.formed is None else self.formed.group_manager.logs.get(group)

    def topics_gone(self, last_seen_ms: Mapping[str, int]) -> None:
        """Topics of an upstream were deleted: their offsets go that were committed by this wall time (ADR 96)."""
        if self.group_manager is not None:
            for shard in self.group_manager.shards.values():
                shard.topics_gone(last_seen_ms)

    def offsets_led(self) -> tuple[int, ...]:
        if self.group_manager is None:
            return ()
        return tuple(partition for partition, shard in self.group_manager.shards.items() if shard.group.serves)

    def transaction_request(self, group: GroupNo, request: TransactionRequest, done: Callable[[Answer], None]) -> None:
        coordinator = None if self.formed is None else self.formed.group_manager.coordinators.get(group)
        if coordinator is None:
            done(Answer(Code.NOT_COORDINATOR if self.formed is not None else Code.COORDINATOR_NOT_AVAILABLE))
        else:
            coordinator.request(request, done)

    def transactions_led(self) -> tuple[GroupNo, ...]:
        if self.group_manager is None:
            return ()
        return tuple(number for number, held in self.group_manager.coordinators.items() if held.group.serves)

    def transactions(self, group: GroupNo) -> Iterator[tuple[str, Transaction]]:
        held = None if self.group_manager is None else self.group_manager.coordinators.get(group)
        return iter(()) if held is None else held.views()

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        add: bool,
        deadline_ms: int,
        done: Callable[[Code], None],
    ) -> None:
        """See `api.transaction_verifier.TransactionVerifier`."""
        if self.formed is None:
            done(Code.COORDINATOR_NOT_AVAILABLE)
            return
        self.formed.verifications.verify(
            transactional_id,
            producer_id,
            producer_epoch,
            topic,
            partition,
            add=add,
            deadline_ms=deadline_ms,
            done=done,
        )

    def submit(self, command: Command, *, deadline_ms: int, done: Callable[[CommandResult], None]) -> None:
        if self.formed is None:
            done(CommandResult(Code.NOT_CONTROLLER, "this replica is not in a cluster yet"))
        else:
            self.formed.client.submit(command, deadline_ms=deadline_ms, done=done)

    def producer_id(self, done: Callable[[int], None]) -> None:
        if self.formed is None:
            done(-1)
        else:
            self.formed.client.producer_id(self.image(), done)

    # -- for operators ---------------------------------------------------------------------------------------------

    def linked(self, broker: BrokerId) -> bool:
        """Self, or a peer whose link is up and whose data folder is the one that the cluster knows."""
        return broker == self.broker or (self.bootstrap is not None and self.bootstrap.trusts(broker))

    def own_folder(self) -> bytes | None:
        """uuid of the data folder that this replica runs on; None before `start`."""
        return None if self.bootstrap is None else self.identity.replica_uuid

    def recorded_folder(self, broker: BrokerId) -> bytes | None:
        """uuid of the data folder that the cluster record names for `broker`; None without a record or a seat."""
        record = None if self.bootstrap is None else self.bootstrap.formation.formed()
        return None if record is None else record.uuid_of(broker)

    def not_ready(self) -> tuple[str, ...]:
        """Why this replica is not ready (decision 30); empty when it is."""
        bootstrap, formed = self.bootstrap, self.formed
        if bootstrap is None:
            return ("starting",)
        if formed is None:
            return (bootstrap.formation.status or "not in a cluster yet",)
        reasons = [bootstrap.formation.status] if bootstrap.formation.out else []
        reasons += formed.not_ready()
        if reasons:
            reasons += bootstrap.refused()
        return tuple(reasons)

    def local_groups(self) -> Iterator[GroupStatus]:
        """Status of each Raft group on this replica, by number, as it is when the iterator reaches it."""
        damaged = {} if self.group_manager is None else self.group_manager.damage.files()
        for number in sorted(self.host.groups):
            group = self.host.groups.get(number)
            if group is not None:
                yield group_status(group, damaged.get(number, ()))

    def group_views(self, partition: int) -> Iterator[GroupMetrics]:
        """Consumer groups of an offsets partition that this replica leads; the iterator ends when leadership is
        lost."""
        held = None if self.group_manager is None else self.group_manager.shards.get(partition)
        if held is None:
            return
        for view in held.shard.views():
            if not held.group.serves:
                return
            yield view

    def committed(self, partition: int, group: str) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, offset) of each commit of a group, as applied here."""
        held = None if self.group_manager is None else self.group_manager.shards.get(partition)
        return iter(()) if held is None else iter(held.shard.committed(group))

    def log_bounds(self, group: GroupNo) -> tuple[int, int] | None:
        """(log start offset, high watermark) of a log as applied on this replica; None if it is not here, or in Redis,
        whose offsets have gaps, so that their difference is no number of records."""
        log = None if self.group_manager is None else self.group_manager.logs.get(group)
        return None if log is None else log.bounds()

    def records_behind(self, group: str, topic: Topic, partition: int, committed: int) -> Records:
        """What is known of a group's lag in a partition in Redis, and have it counted again."""
        held = self.group_manager
        return UNKNOWN_LAG if held is None else held.lags.records(group, topic, partition, committed)

    def open_transactions(self) -> Iterator[OpenTransactions]:
        """The partitions led here with an open transaction, of topics and of groups."""
        if (manager := self.group_manager) is None:
            return iter(())
        of_groups = (shard.open_transactions() for shard in manager.shards.values())
        of_topics = (log.topic.open_transactions() for log in manager.topic_logs())
        return (found for found in chain(of_groups, of_topics) if found is not None)

    def log_bytes(self, group: GroupNo) -> int | None:
        """Of a partition's segments on this replica; None if it is not here, or the group has no log of records."""
        log = self.local_log(group)
        return None if log is None else log.size_bytes()

    def groups_to_change(self) -> int:
        """How many Raft groups led here lack wanted members."""
        return 0 if self.formed is None else self.formed.membership.to_change()

    def balancer_status(self) -> BalancerStatus:
        """What the balancer does; `elsewhere` if this replica does not lead the controller's group."""
        return BalancerStatus(State.ELSEWHERE) if self.formed is None else self.formed.balancer.status

    def balancer_plan(self, image: ClusterImage, *, level: bool = True) -> Planner:
        """What would be moved by this image if nothing had to be waited for, as this replica sees who is connected.
        Without `level` only what somebody has asked for."""
        if self.formed is None:
            return Planner(image, ())
        balancer = self.formed.balancer
        takers, connected = balancer.takers(image), balancer.connected()
        weights, avoided = balancer.weights(), balancer.avoided()
        return Planner(image, takers, connected=connected, level=level, weights=weights, avoided=avoided)

    def balancer_weighed(self) -> Weighed:
        """What this replica knew of weights when it last looked, if it leads the controller's group."""
        return Weighed() if self.formed is None else self.formed.balancer.weighed

    def copies_without_room(self) -> tuple[CopyWithoutRoom, ...]:
        """The groups whose copies to this replica wait for room. O(groups)."""
        groups = self.host.groups.values()
        return tuple(CopyWithoutRoom(one.number, one.name, one.lacks_room) for one in groups if one.lacks_room)

    def leaderships(self) -> int:
        """How many Raft groups this replica leads."""
        return sum(1 for group in self.host.groups.values() if group.leads)

    def wals(self) -> list[WalStatus]:
        """How full each WAL is; empty before the cluster is formed."""
        return [wal_writer.status() for wal_writer in self.host.wal_writers]

    def cleaner_status(self) -> CleanerStatus:
        """Counts of log cleaning."""
        return CleanerStatus() if self.formed is None else self.formed.cleaner.status()

    def scrub_status(self) -> ScrubStatus:
        """Counts of the background check of segments, and of repairs."""
        return ScrubStatus() if self.formed is None else self.formed.scrub_status()

    def stopped_entries(self) -> list[StoppedEntry]:
        """The entries that Raft groups of this replica could not apply and stopped at."""
        found = (stopped_entry(self.host.groups[number]) for number in sorted(self.host.groups))
        return [one for one in found if one is not None]

    def skip_entry(self, group: GroupNo, done: Callable[[bool], None]) -> bool:
        """`RaftGroup.pass_over`, for a group of `stopped_entries`."""
        held = self.host.groups.get(group)
        return held is not None and held.pass_over(done)

    def stop_skipping(self, group: GroupNo) -> None:
        """`RaftGroup.give_up`: end `skip_entry`."""
        held = self.host.groups.get(group)
        if held is not None:
            held.give_up()

    def install_status(self) -> InstallStatus:
        """Counts of snapshot installs since the start."""
        return InstallStatus(0, 0, 0, 0, 0) if self.formed is None else self.formed.install_status()

    def work_done(self) -> WorkDone:
        """What this replica has done since its start."""
        host, group_manager = self.host, self.group_manager
        return WorkDone(
            turns=host.turns,
            proposals_refused=host.refused_busy,
            checkpoints=0 if group_manager is None else group_manager.checkpoints.made,
            flushes=0 if group_manager is None else group_manager.checkpoints.flushes,
            late_timers=host.deadlines.stalls,
            group_requests=0
            if group_manager is None
            else group_manager.past_requests + sum(shard.requests for shard in group_manager.shards.values()),
        )

    def group_stats(self) -> ShardStats:
        """What this replica has done since its start as the coordinator of consumer groups."""
        group_manager = self.group_manager
        if group_manager is None:
            return ShardStats()
        return summed((group_manager.past_stats, *(held.shard.stats for held in group_manager.shards.values())))

    def transaction_status(self) -> TransactionStatus:
        """Of the coordinators of transactions on this replica."""
        if (manager := self.group_manager) is None:
            return TransactionStatus()
        counts = [held.coordinator.open_counts() for held in manager.coordinators.values()]
        ids, ongoing, prepared = (sum(some) for some in zip((0, 0, 0), *counts, strict=True))
        return TransactionStatus(ids, ongoing, prepared, *astuple(manager.transaction_services.stats))

    def late_markers(self) -> Iterator[LateMarker]:
        """Partitions that have lacked a marker of a coordinator here for long."""
        return iter(()) if self.formed is None else iter(self.formed.markers.late())

    def transfer(self, group: GroupNo, target: BrokerId) -> bool:
        """Start a leadership transfer of `group` to `target`. False: this replica does not lead it, or the target
        cannot take it."""
        held = self.host.groups.get(group)
        return held is not None and self._net.is_up(target) and held.transfer(target)

    def state_hash(self, group: GroupNo) -> str | None:
        """Hex digest of the durable state of a group; equal on all replicas at the same applied index."""
        return None if self.group_manager is None else self.group_manager.state_hash(group)

    def offsets_group(self, partition: int) -> GroupNo:
        return GroupNo(FIRST_OFFSETS_GROUP + partition)


class _Peers:
    """`ports.PeerSink` of a started node: passes links and bootstrap states of peers to `Bootstrap`, and the other
    messages of trusted peers to `FormedNode`, once the cluster is formed."""

    def __init__(self, node: Node, bootstrap: Bootstrap) -> None:
        self._node = node
        self._bootstrap = bootstrap
        self._forming: set[BrokerId] = set()
        """Peers that were in no cluster yet when they last told their state over this link."""

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        self._node.link_told(peer, is_up=True)
        self._bootstrap.peer_up(peer, hello)
        self._node.judge_link(peer, self._bootstrap.member_of(peer), is_new=True)

    def peer_down(self, peer: BrokerId) -> None:
        self._node.link_told(peer, is_up=False)
        self._bootstrap.peer_down(peer)
        self._forming.discard(peer)
        self._node.link_gone(peer)

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        """Raises `WireError` for a payload that is malformed or of an untrusted peer: the caller closes the link."""
        kind = payloads.kind_of(payload)
        if kind is Kind.BOOTSTRAP_STATE:
            state = bootstrap_payload.decode_bootstrap_state(payload)
            self._bootstrap.heard(peer, state)
            self._told_state(peer, state.phase)
            return
        formed = self._node.formed
        if formed is None:
            return  # the peer has formed before this replica; it repeats what is needed
        trusted = self._bootstrap.trusts(peer)
        if not trusted and self._bootstrap.will_trust(peer):
            self._node.heard_early(peer, kind, payload)
            return
        check_trusted(trusted, peer)
        formed.received(peer, kind, payload)

    def _told_state(self, peer: BrokerId, phase: Phase) -> None:
        """What a peer was sent before it had formed it has not taken in: who leads what it is told again."""
        if phase is not Phase.FORMED:
            self._forming.add(peer)
        elif peer in self._forming:
            self._forming.discard(peer)
            if self._bootstrap.trusts(peer):
                self._node.host.gossip_to(peer)


def _cluster_id(rand: Rand) -> str:
    """A random cluster id: 22 characters of url-safe base64, the first a letter or digit, so that no command line takes
    it for an option."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    first = letters[rand.randrange(0, 62)]
    return first + "".join(letters[rand.randrange(0, 64)] for _ in range(20)) + letters[rand.randrange(0, 4) * 16]
