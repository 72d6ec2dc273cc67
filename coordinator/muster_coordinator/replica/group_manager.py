"""The Raft groups of one replica: recovered at start, made for new topics, removed with deleted ones.

Problem: a replica must hold exactly the groups that its cluster has given it, each recovered to a state that keeps all
its promises, through crashes at any point. Mechanism: group 0 (controller) follows from the formed record, the groups
of all partitions from the controller's image. The offsets partitions' groups 1..N begin before there is any image, on
the folders that formed the cluster, and follow it from then on.
A group is made from its WAL: hard state and entries, the newest checkpoint for the state machine, the recovery point
for the segments; the entries after them are replayed by the ordinary apply path (decision 2). A deleted group is
dropped from its WAL first, and its folders are deleted when that is durable, because a start that finds the group in
the WAL needs them; if a crash comes between, the next start deletes the folders. What it does not do: fetch a state
that is lost (`snapshots.install`).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from muster_coordinator.controller.commands import FormCluster
from muster_coordinator.controller.image import OFFSETS_TOPIC, ClusterImage, Partition, Topic
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.controller.topics import rotated
from muster_coordinator.errors import Corruption, DiskFull
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.groups.stats import ShardStats, summed
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, GroupNo, MemberNo, member_no
from muster_coordinator.limits import ERROR_MESSAGE_CHARS_MAX, SEGMENT_MS
from muster_coordinator.ports import Disk, Loop, Notice, Rand, unnoticed
from muster_coordinator.raft.members import Placed
from muster_coordinator.raft.messages import Entry, kind_name
from muster_coordinator.redis_streams.server import StreamServer
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Identity
from muster_coordinator.replica.bootstrap.identity import store as store_file
from muster_coordinator.replica.configs_in_force import ConfigsInForce
from muster_coordinator.replica.controller.controller_group import ControllerGroup
from muster_coordinator.replica.folders import SEGMENTS, segments_folder
from muster_coordinator.replica.multiraft.host import SEGMENT, Host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.wal_writer import WalWriter
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.partitions.redis_lags import RedisLags
from muster_coordinator.replica.partitions.redis_log import RedisLog
from muster_coordinator.replica.partitions.redis_mirror import GroupMirror
from muster_coordinator.replica.partitions.shards import ShardGroup
from muster_coordinator.replica.partitions.stream_place import StreamPlace
from muster_coordinator.replica.partitions.suspensions import Suspensions
from muster_coordinator.replica.partitions.topic_logs import LogView, OffsetsLog, TopicGroup, TopicLog
from muster_coordinator.replica.partitions.topic_making import TopicMaking
from muster_coordinator.replica.partitions.transaction_groups import TransactionGroup, TransactionServices
from muster_coordinator.replica.settings import REPLICATED_ROLLS_LEVEL, NodeSettings
from muster_coordinator.replica.snapshots import staging
from muster_coordinator.replica.snapshots.checkpoints import Checkpoints, Stateful
from muster_coordinator.replica.snapshots.damage import Damage
from muster_coordinator.replica.snapshots.group_making import GroupMaker, MakeMachine, Recovery
from muster_coordinator.replica.snapshots.install_payload import Offer
from muster_coordinator.replica.snapshots.staging import Staged
from muster_coordinator.storage.contract import GroupWrites, WalStore
from muster_coordinator.storage.partition_log import PartitionLog
from muster_coordinator.storage.wal import Wal
from muster_coordinator.topics.partition import TopicPartition
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG
from muster_coordinator.transactions.coordinator import TransactionCoordinator

OFFSETS_WAL = "wal-offsets"
TOPICS_WAL = "wal-topics"
BORN_FILE = "born"
_BORN_MAGIC = 0x4D55_424E
"""The file is written once, when both WALs exist: from then on a missing WAL means lost data, not a new replica."""
OLDER_STATE = "the newest checkpoint is damaged: the state was restored from an older one, or from the log alone"
CANNOT_APPLY = "a Raft group stopped at an entry that it cannot apply"
WAL_UNREADABLE = "an entry in an old WAL file cannot be read: the file stays until a checkpoint covers the entry"
WITHOUT_STATE = (
    "a group has no state here: it votes, but cannot lead until it has fetched a state from another replica; if none "
    "has one, restore the file from a backup"
)
STATE_AGAIN = "a group has its state again"
WAL_DAMAGED = "bytes of the WAL are not what was written: groups that may have lost a promise there are suspended"
PROOF_MS = 1_000
"""How often idle WALs are checked for a last sync whose proof is not durable yet."""
WRITE_OUT_MS = 100
"""How often appended batches are written to the segment files."""


class Reopened(NamedTuple):
    """A partition's segments after a swap."""

    log: PartitionLog
    applied: int
    """The segments hold the entries up to this index."""


class Swapped(NamedTuple):
    """The files of an installed checkpoint are in place."""

    staged: Staged
    segments: Reopened | None
    """None: the group is the controller's, which has no segments."""


class GroupManager:
    """See the module. `shards` by offsets partition, `logs` and `coordinators` (of transactions) by Raft group."""

    def __init__(
        self,
        settings: NodeSettings,
        loop: Loop,
        disk: Disk,
        rand: Rand,
        host: Host,
        identity: Identity,
        record: ClusterRecord,
        controller: ControllerMachine,
        *,
        born: Callable[[RaftGroup], None],
        streams: StreamServer,
        notice: Notice = unnoticed,
    ) -> None:
        """Blocking: opens the WALs and recovers every group that the record names. `controller` must be newly made.
        `born` is called with each group of a new topic, not with groups that the start finds."""
        self._notice = notice
        self.damage = Damage(host, notice)
        self._born, self._streams = born, streams
        self._settings = settings
        self._loop, self._disk = loop, disk
        self._rand, self._host = rand, host
        self._identity, self.record = identity, record
        self.install_rate = settings.install_rate
        self.disk_low_bytes = settings.disk_low_bytes
        self.shards: dict[int, ShardGroup] = {}
        self.logs: dict[GroupNo, LogView] = {}
        self.coordinators: dict[GroupNo, TransactionGroup] = {}
        self.transaction_services = TransactionServices()
        self.states: dict[GroupNo, PartitionState] = {}
        self._topics: dict[GroupNo, tuple[Topic, int]] = {}
        """Groups of the image's partitions that exist here or are being made -> (topic, the partition's index)."""
        self._elsewhere: set[GroupNo] = set()
        """Groups of the image's partitions that are on other replicas only."""
        self._leaving: set[GroupNo] = set()
        """Those of them that still have something here: the partition was moved (`partitions.moved_away`)."""
        self._in_force = ConfigsInForce(settings)
        self._rolls: dict[GroupNo, tuple[int, int]] = {}
        """Group -> (segment.bytes, segment.ms) as configured now."""
        self.past_stats = ShardStats()
        self.past_requests = 0
        """What the shards did, and how many requests they got, that were moved away since the start: no counter of this
        replica falls when one goes."""
        self._unwritten: list[PartitionState] = []
        self._damaged: list[WalWriter] = []
        """Those in whose WAL this start has found damage."""
        self._proven: dict[WalWriter, int] = {}
        """Writer -> its number of batches at the last proof."""
        self._unmade = False
        """Groups that the WAL does not know wait until the controller group has caught up."""
        self._unclaimed: set[GroupNo] = set()
        """Groups that the start found in the WAL or on disk and that are not in the image applied so far."""
        self.troubled: dict[GroupNo, Offer | None] = {}
        """Groups without a valid state here -> an install that is sealed and was not put in place, if any.
        `snapshots.install` heals them."""
        self._offsets_writer, self.topics_writer = self._open_wals()
        host.stopped = self._stopped
        host.unreadable = self._unreadable
        self._suspensions = Suspensions(loop, host, notice, self._was_moved)
        host.deleted = self._deleted
        self.checkpoints = Checkpoints(loop, disk, host, settings)
        self._maker = GroupMaker(disk, rand, host, settings)
        self._mirror, self.lags = self._made_mirror(), self._made_lags()
        self.making = TopicMaking(loop, disk, made=self._make_partition, fatal=host.fatal, notice=notice)
        if disk.exists(SEGMENTS):
            disk.sync_dir(SEGMENTS)  # the process may have ended after it made folders and before it synced them
        self.controller = self._make_controller(controller)
        self.image = controller.cluster
        self._begin()

    # -- start -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Make what is here, as far as the record and the image at the start tell."""
        for partition in range(self.record.offsets_partitions):
            if self._begins_at_once(partition):
                self._make_shard(partition)
        if self.image is not None:
            self._follow(None, self.image)
            self.making.open_known()

    def start(self) -> None:
        """Start checkpoints, and the timers that write appended batches to files and make proofs durable."""
        self.checkpoints.start()
        self._loop.call_at(self._loop.monotonic_ms() + WRITE_OUT_MS, self._write_out)
        self._loop.call_at(self._loop.monotonic_ms() + PROOF_MS, self._prove)

    def _open_wals(self) -> tuple[WalWriter, WalWriter]:
        """The writer of the controller's and the offsets partitions' WAL, and the writer of the topics' WAL."""
        cluster = self.record.wal_uuid()
        born = self._disk.exists(BORN_FILE)  # only its existence counts, not its content, which may be damaged
        writers = []
        for name in (OFFSETS_WAL, TOPICS_WAL):
            if born and not any(file.endswith(".wal") for file in self._disk.listdir(name)):
                raise Corruption(f"{name} is gone: the replica has lost votes and entries and must not start")
            wal = Wal.open(
                self._disk,
                name,
                node_uuid=self._identity.replica_uuid,
                cluster_uuid=cluster,
                file_bytes=self._settings.wal_file_bytes,
                bytes_max=self._settings.wal_bytes_max,
            )
            for damage in wal.damage:
                self._notice(WAL_DAMAGED, {"wal": name, "damage": damage}, None)
            writers.append(self._host.add_wal_writer(name, wal))
            if wal.damage:
                self._damaged.append(writers[-1])
        if not born:
            store_file(self._disk, BORN_FILE, _BORN_MAGIC, b"")
        offsets, topics = writers
        return offsets, topics

    def _track(self, group: RaftGroup, machine: Stateful, state: PartitionState | None) -> None:
        """From now on the group is checkpointed, and healed if its state or its promises are damaged."""
        self.checkpoints.add(group, machine, state)
        if group.suspended and (group.wal_writer in self._damaged or not self._was_moved(group.number)):
            self._suspensions.found(group, "its WAL does not hold all that was synced")
        if group.trouble:
            self._without_state(group, self._maker.interrupted(group.number))
            return
        damage = self._maker.fell_back(group.number)
        if damage:
            self._notice(OLDER_STATE, {"group": group.number, "why": damage}, None)
            self.checkpoints.want(group.number, lambda: None)

    def _without_state(self, group: RaftGroup, sealed: Offer | None) -> None:
        self.troubled[group.number] = sealed
        self._notice(WITHOUT_STATE, {"group": group.number, "why": group.trouble}, None)

    def _made_mirror(self) -> GroupMirror | None:
        """None: the groups led here are not shown in Redis."""
        settings = self._settings
        if not settings.redis_groups_mirror:
            return None
        cluster, prefix = self.record.cluster_id, settings.redis_prefix
        return GroupMirror(self._loop, self._streams, cluster, prefix, lambda: self.image, self._notice)

    def _made_lags(self) -> RedisLags:
        return RedisLags(self._loop, self._streams, self.record.cluster_id, self._settings.redis_prefix)

    def _make_controller(self, machine: ControllerMachine) -> ControllerGroup:
        record = self.record
        form = FormCluster(
            cluster_id=record.cluster_id,
            voters=record.brokers(),
            offsets_partitions=record.offsets_partitions,
            offsets_topic_id=record.offsets_topic_id,
            feature_level=self._settings.feature_max,
        )

        def restore(recovery: Recovery) -> MakeMachine:
            if recovery.body is not None:
                machine.restore(recovery.body)
            return lambda group: ControllerGroup(
                group, machine, form, changed=self._image_changed, moved=self._controller_moved
            )

        members = tuple(member_no(broker, 0) for broker in record.brokers())
        if len(members) == 1 and record.has_others(self._settings.broker):
            # It may be one of several voters by now. What its WAL has lost, they make good for, or `muster recover`.
            members = () if self._offsets_writer.wal.is_suspended(CONTROLLER_GROUP) else members
        group = self._maker.make(CONTROLLER_GROUP, members, self._offsets_writer, restore)
        controller = group.machine
        assert isinstance(controller, ControllerGroup)
        self._track(group, controller, None)
        return controller

    def _begins_at_once(self, partition: int) -> bool:
        """Is this offsets partition's group made at the start, whatever image there will be? On a folder that formed
        the cluster it is there from the beginning, so that the cluster can form. One that is suspended may have been
        moved away and dropped (ADR 45): it waits for an image that says so, or shows that it is missing. Where the WAL
        may have lost groups, each is suspended, and made so, as the controller's is that could give an image."""
        broker, number = self._settings.broker, GroupNo(FIRST_OFFSETS_GROUP + partition)
        if broker not in self.record.brokers() or self._host.member != member_no(broker, 0):
            return False
        if self.image is not None and broker not in self.image.topics[OFFSETS_TOPIC].partitions[partition].holders:
            return False
        wal = self._offsets_writer.wal
        return wal.may_lack_groups or not wal.is_suspended(number)

    def _make_shard(self, partition: int, log: PartitionLog | None = None) -> None:
        """Make an offsets partition's group: a new one with its open segments in `log`, else one from its WAL, or the
        first of a new cluster (blocking)."""
        number = GroupNo(FIRST_OFFSETS_GROUP + partition)
        members = rotated(tuple(member_no(broker, 0) for broker in self.record.brokers()), partition)
        place = None if self.image is None else self.image.topics[OFFSETS_TOPIC].partitions[partition]
        if self._is_alone_no_more(number, members, place):
            members = ()
        shard = GroupShard(self._settings.shard, self._rand)
        folder = f"{segments_folder(number)}/{OFFSETS_TOPIC}-{partition}"

        def restore(recovery: Recovery) -> MakeMachine:
            roll = (self._settings.offsets_segment_bytes, SEGMENT_MS)
            state = self._state(number, folder, recovery, roll, log)
            if recovery.body is not None:
                shard.restore(recovery.body)
            return lambda group: ShardGroup(
                group,
                self._loop,
                self._host.deadlines,
                self._host.leaders,
                state,
                shard,
                timing=self._settings.timing,
                proposal_timeout_ms=self._settings.proposal_timeout_ms,
                notice=self._notice,
                roll=lambda: self._roll_wanted(number),
                mirror=self._mirror,
            )

        group = self._maker.make(number, members, self._offsets_writer, restore, folder, begins=log is not None)
        machine = group.machine
        assert isinstance(machine, ShardGroup)
        self._unclaimed.discard(number)
        self.shards[partition] = machine
        for topic_id in sorted(self.image.deleted_topic_ids) if self.image is not None else ():
            machine.topic_deleted(topic_id)
        self.logs[number] = OffsetsLog(self._loop, group, machine, self.damage.report)
        self._track(group, machine, machine.state)

    def _state(
        self,
        number: GroupNo,
        folder: str,
        recovery: Recovery,
        roll: tuple[int, int],
        log: PartitionLog | None = None,
    ) -> PartitionState:
        """`log`: the open segments of a new group."""
        if number in self.states:
            self.states[number].close()  # of an attempt just before, in which the checkpoint proved to be damaged
        if not recovery.whole:
            log = PartitionLog.absent(self._disk, folder)
        elif log is None:
            # The WAL has lost the newest recovery point: opening at this older one would cut applied batches off.
            if recovery.recovery_point.applied < recovery.meta.index:
                raise Corruption(
                    f"the checkpoint is {recovery.meta.index}, the recovery point of the segments "
                    f"{recovery.recovery_point.applied}"
                )
            log = PartitionLog.open(self._disk, folder, recovery.recovery_point, recovery.meta.log_start_offset)
        state = PartitionState(
            log,
            folder,
            roll,
            replicated_roll=recovery.meta.roll,
            segments_from=recovery.recovery_point.applied,
            next_offset=recovery.meta.next_offset,
            log_start=recovery.meta.log_start_offset,
            dirty=self._unwritten.append,
        )
        state.closed = not recovery.whole
        self.states[number] = state
        return state

    # -- partitions ------------------------------------------------------------------------------------------------

    def _image_changed(self, before: ClusterImage | None, after: ClusterImage) -> None:
        self.image = after
        self._follow(before, after)

    def _controller_moved(self) -> None:
        """Make the groups that waited, once the controller group has caught up."""
        if self._unmade and self.image is not None and self.controller.group.caught_up:
            self._unmade = False
            self._want(self.image.topics.values())

    def _follow(self, before: ClusterImage | None, after: ClusterImage) -> None:
        """Have the groups of new partitions made, remove those of deleted topics, and tell the shards of deletions."""
        if before is not None and before.feature_level != after.feature_level:
            for number, (topic, _) in self._topics.items():
                self._rolls[number] = self._in_force.roll(topic, self._level())
        if before is not None and before.topics is after.topics:
            return
        old = {} if before is None else before.topics
        if before is None:
            self._unclaimed = self._traces() - self.logs.keys()
        new = [topic for name, topic in after.topics.items() if old.get(name) is not topic]
        self._want(new)
        if self._mirror is not None:
            self._mirror.topics_changed(new)
        for name, topic in old.items():
            now = after.topics.get(name)
            if now is None or now.topic_id != topic.topic_id:
                self._remove_topic(topic)
        if self._unclaimed:
            self._drop_leftovers(after)
        deleted = after.deleted_topic_ids if before is None else after.deleted_topic_ids - before.deleted_topic_ids
        for topic_id in sorted(deleted):
            for shard in self.shards.values():
                shard.topic_deleted(topic_id)

    def _want(self, topics: Iterable[Topic]) -> None:
        """Have the groups of these topics made. A group that the WAL does not know is new, or was deleted later in the
        controller's log, which a start may not have replayed to its end. A deleted group that began anew would vote and
        lead in terms that it has used before. So such a group waits until the controller group has caught up."""
        caught_up = self.controller.group.caught_up
        for topic in topics:
            roll = self._in_force.roll(topic, self._level())
            for index, partition in enumerate(topic.partitions):
                number = partition.group
                if self._settings.broker not in partition.holders:
                    self._elsewhere.add(number)
                    if number in self._topics or number in self._unclaimed or number in self.logs:
                        self._leaving.add(number)
                    continue
                self._elsewhere.discard(number)
                self._leaving.discard(number)
                if number not in self._topics and number not in self.logs:
                    begun = self._maker.begun(number, self._writer_of(number))
                    if not begun and not caught_up:
                        self._unmade = True
                        continue
                    self.making.want(number, f"{segments_folder(number)}/{topic.name}-{index}", known=begun)
                self._topics[number] = (topic, index)
                self._rolls[number] = roll

    def _make_partition(self, number: GroupNo, log: PartitionLog | None) -> None:
        """Make a partition's group: a new one with its open segments in `log`, else one from its WAL (blocking)."""
        topic, index = self._topics[number]
        if topic.name == OFFSETS_TOPIC:
            self._make_shard(index, log)
        elif topic.internal:
            self._make_transactions(number, topic, index, log)
        else:
            self._make_topic(number, topic, index, log)

    def _make_topic(self, number: GroupNo, topic: Topic, index: int, log: PartitionLog | None) -> None:
        roll = self._rolls[number]
        folder = f"{segments_folder(number)}/{topic.name}-{index}"

        def restore(recovery: Recovery) -> MakeMachine:
            state = self._state(number, folder, recovery, roll, log)
            records = TopicPartition()
            if recovery.body is not None:
                records.restore(recovery.body)
            return lambda group: TopicGroup(
                group, self._loop, self._host.deadlines, state, records, roll=lambda: self._roll_wanted(number)
            )

        partition, begins = topic.partitions[index], log is not None
        members = () if self._is_alone_no_more(number, partition.members, partition) else partition.members
        group = self._maker.make(number, members, self.topics_writer, restore, folder, begins=begins)
        machine = group.machine
        assert isinstance(machine, TopicGroup)
        self._unclaimed.discard(number)
        self.logs[number] = self._topic_log(number, topic, index, machine)
        self._track(group, machine, machine.state)
        if begins and partition.move is None:
            self._born(group)

    def _topic_log(self, number: GroupNo, topic: Topic, index: int, machine: TopicGroup) -> LogView:
        """Of a topic in Redis the machine holds no records: its group owns the stream."""
        loop, group, damaged = self._loop, machine.group, self.damage.report
        own = dict(topic.configs)
        if own.get(STORE_CONFIG) != REDIS.name:
            return TopicLog(loop, group, machine, lambda: self._configs(number), damaged)
        place = StreamPlace.of(self._settings.redis_prefix, topic.name, own, index)
        cluster, state, streams = self.record.cluster_id, machine.state, self._streams

        def configs() -> Mapping[str, str]:
            """Without what the server compacts by default: a stream is not compacted."""
            return {**self._configs(number), "cleanup.policy": "delete"}

        return RedisLog(loop, group, state, damaged, cluster, place, streams, configs, self._notice)

    def _make_transactions(self, number: GroupNo, topic: Topic, index: int, log: PartitionLog | None) -> None:
        """A partition of the transaction log."""
        roll = self._rolls[number]
        folder = f"{segments_folder(number)}/{topic.name}-{index}"
        coordinator = TransactionCoordinator(self._settings.transactions, self.transaction_services.stats)

        def restore(recovery: Recovery) -> MakeMachine:
            state = self._state(number, folder, recovery, roll, log)
            if recovery.body is not None:
                coordinator.restore(recovery.body)
            return lambda group: TransactionGroup(
                group,
                self._loop,
                self._host.deadlines,
                state,
                coordinator,
                timing=self._settings.timing,
                proposal_timeout_ms=self._settings.proposal_timeout_ms,
                roll=lambda: self._roll_wanted(number),
                services=self.transaction_services,
            )

        partition, begins = topic.partitions[index], log is not None
        members = () if self._is_alone_no_more(number, partition.members, partition) else partition.members
        group = self._maker.make(number, members, self.topics_writer, restore, folder, begins=begins)
        machine = group.machine
        assert isinstance(machine, TransactionGroup)
        self._unclaimed.discard(number)
        self.coordinators[number] = machine
        self.logs[number] = LogView(self._loop, group, machine.state, self.damage.report)
        self._track(group, machine, machine.state)
        if begins and partition.move is None:
            self._born(group)

    def _is_alone_no_more(self, number: GroupNo, members: tuple[MemberNo, ...], place: Partition | None) -> bool:
        """Suspended, and alone by the configuration at the beginning of its log: it comes back, and there are others
        now to restore it."""
        if len(members) != 1 or place is None or not self._writer_of(number).wal.is_suspended(number):
            return False
        return place.moves or place.voters != (self._settings.broker,)

    def _roll_wanted(self, number: GroupNo) -> tuple[int, int] | None:
        """The (segment.bytes, segment.ms) that a leader must have in its log; None while the feature level is below
        `REPLICATED_ROLLS_LEVEL`, since an older voter could not apply it."""
        if self._level() < REPLICATED_ROLLS_LEVEL:
            return None
        return self._rolls.get(number) or (self._settings.offsets_segment_bytes, SEGMENT_MS)

    def default_policy(self) -> str:
        """`cleanup.policy` of clients' topics that do not say it themselves."""
        return self._in_force.default_policy(self._level())

    def _configs(self, number: GroupNo) -> Mapping[str, str]:
        return self._in_force.of(self._topics[number][0], self._level())

    def _level(self) -> int:
        return 0 if self.image is None else self.image.feature_level

    def topic_logs(self) -> list[TopicLog]:
        """Partitions of topics that exist here."""
        return [log for log in self.logs.values() if isinstance(log, TopicLog)]

    def _remove_topic(self, topic: Topic) -> None:
        """The topic was deleted: remove its groups, also those that are still being made."""
        for partition in topic.partitions:
            self._leaving.discard(partition.group)
            if partition.group in self._elsewhere:
                self._elsewhere.discard(partition.group)
                self._forget_suspension(partition.group)
            if self._topics.pop(partition.group, None) is None:
                continue
            del self._rolls[partition.group]
            if partition.group in self.logs:
                self._remove_group(partition.group, deleted=True)
            else:
                self.making.forget(partition.group)

    def _was_moved(self, number: GroupNo) -> bool:
        """A replica of a moved partition is suspended on its way out, and when it comes back: nothing is lost then."""
        topic, index = self._topics.get(number, (None, 0))
        return topic is not None and topic.partitions[index].move is not None

    def leaving(self) -> list[GroupNo]:
        """See `moved_away.Leaving`."""
        return sorted(self._leaving) if self.controller.group.caught_up else []

    def leaves(self, number: GroupNo) -> bool:
        """See `moved_away.Leaving`."""
        return number in self._leaving

    def drop_replica(self, number: GroupNo) -> None:
        """The partition was moved away. Invariant: the group is suspended here, durably, so a replica of it that is
        made here later begins suspended."""
        self._leaving.discard(number)
        self._unclaimed.discard(number)
        self._topics.pop(number, None)
        self._rolls.pop(number, None)
        self._maker.forget(number)
        self.making.leaves(number)
        if number in self.logs:
            self._remove_group(number, deleted=False)
            return
        self.making.forget(number)
        self._writer_of(number).drop_group(number, partial(self.making.remove, number))
        self._host.want_turn()

    def wal_of(self, number: GroupNo) -> WalStore:
        """See `moved_away.Leaving`."""
        return self._writer_of(number).wal

    def _writer_of(self, number: GroupNo) -> WalWriter:
        return self._offsets_writer if number < self._first_topic_group() else self.topics_writer

    def _forget_suspension(self, number: GroupNo) -> None:
        """The topic of a group that was removed here before is deleted: no replica of it can come back."""
        wal = self.topics_writer.wal
        if wal.is_suspended(number) and not wal.may_lack_groups:
            self._loop.submit("transfer", wal.suspend(number, False), lambda _: None)

    def _remove_group(self, number: GroupNo, *, deleted: bool) -> None:
        """`deleted`: with its topic; else other replicas have it."""
        self.troubled.pop(number, None)
        shard = self.shards.pop(number - FIRST_OFFSETS_GROUP, None)
        if shard is not None:
            self.past_stats = summed((self.past_stats, shard.shard.stats))
            self.past_requests += shard.requests
        self.coordinators.pop(number, None)
        log = self.logs.pop(number)
        if deleted and isinstance(log, RedisLog):
            log.forget()
        state = self.states.pop(number)
        self.damage.forget(number)
        group = log.raft
        group.retire()
        waits_for = 2

        def ready() -> None:
            nonlocal waits_for
            waits_for -= 1
            if waits_for == 0:
                self.making.remove(number)

        def idle() -> None:
            """No flush or checkpoint of the group is under way."""
            state.close()
            ready()

        self.checkpoints.remove(group, idle)
        self._host.remove(group, ready, deleted=deleted)
        state.moved()

    def _deleted(self, number: GroupNo) -> bool:
        """Was this group in the image, and was it deleted? False while groups wait for the controller to catch up."""
        image = self.image
        if image is None or self._unmade or not self._first_topic_group() <= number < image.next_group:
            return False
        return number not in self._topics and number not in self._elsewhere

    def _first_topic_group(self) -> int:
        return FIRST_OFFSETS_GROUP + self.record.offsets_partitions

    def _traces(self) -> set[GroupNo]:
        """Groups of partitions of which the start found entries in a WAL, or files."""
        writers = (self._offsets_writer, self.topics_writer)
        found = {number for writer in writers for number in self._maker.known_groups(writer)}
        return {*found, *self._maker.groups_with_files()} - {CONTROLLER_GROUP}

    def _drop_leftovers(self, image: ClusterImage) -> None:
        """Drop the groups of topics that were deleted while this replica was down, or just before it stopped. A group
        that is newer than the applied image (its number is not below `next_group`) waits for a later image."""
        wanted = {partition.group for topic in image.topics.values() for partition in topic.partitions}
        for number in sorted(self._unclaimed):
            if number < image.next_group and number not in wanted:
                self._unclaimed.discard(number)
                self.topics_writer.drop_group(number, partial(self.making.remove, number))

    # -- snapshot install --------------------------------------------------------------------------------------------

    def swap_job(self, offer: Offer) -> Callable[[], Swapped]:
        """Close the group's segments; the returned job puts the staged files in their place and opens the new log."""
        number = GroupNo(offer.group)
        state = self.states.get(number)
        folder, disk = "", self._disk
        if state is not None:
            state.close()
            folder = state.folder

        def job() -> Swapped:
            staged = staging.swap(disk, offer, folder)
            if offer.recovery_point is None:
                return Swapped(staged, None)
            start = staged.meta.log_start_offset
            log = PartitionLog.open(disk, folder, offer.recovery_point, start)
            return Swapped(staged, Reopened(log, offer.recovery_point.applied))

        return job

    def install(self, group: RaftGroup, swapped: Swapped, durable: Callable[[], None]) -> None:
        """The files are in place: restore the state machine from the checkpoint, and stage its record in the WAL.

        Invariant: the core's own writes are staged before that record. The record may start the group's log anew in the
        WAL, after its index; older entries staged later would then come after newer ones. And the checkpoint's term
        must not be durable before the core's term is."""
        staged, segments = swapped
        meta = staged.meta
        group.core.entered(self._loop.monotonic_ms(), meta.term)
        self._host.settle(group)
        assert (segments is None) == (group.number not in self.states), "only a partition's checkpoint has segments"
        if segments is not None:
            state = self.states[group.number]
            state.reopen(segments.log, segments.applied, meta.next_offset, meta.log_start_offset, meta.roll)
        machine_of(group).restore(staged.body)
        self.damage.forget(group.number)
        at = (meta.index, meta.term)
        config = None if meta.config is None else Placed(meta.index, meta.config)
        writes = GroupWrites(group.number, None, (), staged.offer.recovery_point, at, config)
        group.wal_writer.stage_install(group, writes, durable)
        if group.trouble:
            self._notice(STATE_AGAIN, {"group": group.number}, None)
        group.installed(meta.index, meta.term, meta.config)
        self.troubled.pop(group.number, None)

    def _unreadable(self, number: GroupNo, error: Corruption) -> None:
        """The WAL cannot carry an entry of the group. If the entry is applied, the next checkpoint covers it."""
        self._notice(WAL_UNREADABLE, {"group": number, "damage": str(error)}, None)

    def _know_all(self) -> None:
        """End the state "may lack groups" of a damaged WAL: the controller group has caught up, so every group that
        existed is known and made, and none is suspended any more. While a WAL may lack groups, each new group starts
        suspended."""
        if not self.controller.group.caught_up or self.making.wanted_count() or self._unmade:
            return
        for wal_writer in (self._offsets_writer, self.topics_writer):
            lacking = wal_writer.wal.may_lack_groups
            if lacking and not any(
                one.suspended and one.wal_writer is wal_writer for one in self._host.groups.values()
            ):
                self._loop.submit("transfer", wal_writer.wal.all_known(), lambda _: None)

    def _stopped(self, group: RaftGroup, entry: Entry, error: Exception) -> None:
        """An entry of this group cannot be applied here; the state may hold a part of it."""
        state = self.states.get(group.number)
        if state is not None:
            state.closed = True
        why = f"{type(error).__name__}: {error}"[:ERROR_MESSAGE_CHARS_MAX]
        self._notice(
            CANNOT_APPLY,
            {
                "group": group.number,
                "index": entry.index,
                "term": entry.term,
                "kind": kind_name(entry.kind),
                "bytes": len(entry.data),
                "sha256": hashlib.sha256(entry.data).hexdigest(),
            },
            error,
        )
        group.lost_state(f"entry {entry.index} of term {entry.term} cannot be applied: {why}")
        self.troubled[group.number] = None

    def lose_state(self, group: RaftGroup, trouble: str) -> None:
        """The group's files were removed for an install, and the staged files proved to be damaged."""
        group.lost_state(trouble)
        self._without_state(group, None)

    def take_anew(self, group: RaftGroup, trouble: str) -> None:
        """The group's files are of no use any more: the leader's replace them, and they stay until those are here."""
        self.states[group.number].closed = True
        self.lose_state(group, trouble[:ERROR_MESSAGE_CHARS_MAX])

    def _prove(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + PROOF_MS, self._prove)
        for wal_writer in (self._offsets_writer, self.topics_writer):
            if wal_writer.idle() and wal_writer.batches != self._proven.get(wal_writer):
                self._proven[wal_writer] = wal_writer.batches
                self._loop.submit("transfer", wal_writer.wal.sync_proof, lambda _: None)
        self._know_all()

    # -- small parts -----------------------------------------------------------------------------------------------

    def _write_out(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + WRITE_OUT_MS, self._write_out)
        unwritten = self._unwritten[:]
        self._unwritten.clear()
        for state in unwritten:
            try:
                state.write_out()
            except DiskFull:
                self._unwritten.append(state)
                self._host.no_space(SEGMENT)

    def not_caught_up(self) -> int:
        """How many groups have not caught up with their leader yet (decision 30), or are not made yet. Groups without a
        state or suspended are not counted: they may stay so for long, and the other groups must serve. Nor are those
        of which this replica is to become a member: that takes as long as the moves before theirs do."""
        behind = sum(
            1
            for group in self._host.groups.values()
            if not (group.caught_up or group.trouble or group.suspended) and group.is_member
        )
        return behind + self.making.wanted_count()

    def stateful(self, number: GroupNo) -> Stateful | None:
        """The state machine of a group, for checkpoints and comparisons."""
        group = self._host.groups.get(number)
        return None if group is None else machine_of(group)

    def state_hash(self, number: GroupNo) -> str | None:
        machine = self.stateful(number)
        return None if machine is None else machine.state_hash()


def machine_of(group: RaftGroup) -> ControllerGroup | ShardGroup | TopicGroup | TransactionGroup:
    """Every group's machine is one of these."""
    machine = group.machine
    assert isinstance(machine, ControllerGroup | ShardGroup | TopicGroup | TransactionGroup)
    return machine
