"""Groups that are not whole in the folder that is left are told, and keep no other from serving (ADR 40)."""

from muster_coordinator.controller.commands import CreateTopic, MovePartition
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo, member_no
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.bootstrap import identity
from muster_coordinator.replica.group_manager import OFFSETS_WAL
from muster_coordinator.replica.recovery.plan import refusals_of
from muster_coordinator.replica.snapshots import staging
from muster_coordinator.replica.snapshots.install_payload import FileKind, Offer, OfferedFile, encode_offer
from muster_coordinator.storage.checkpoint import checkpoint_name
from muster_coordinator.storage.contract import RecoveryPoint
from muster_coordinator.storage.segment_index import segment_name
from muster_coordinator.storage.wal_losses import Losses, store

from tests.replica.cluster import SimCluster, produce_when_room
from tests.replica.recovery.lost_majority import (
    SURVIVOR,
    TOPIC_GROUP,
    await_members,
    fetched,
    held,
    log_end,
    look,
    lose_majority,
    members,
    produce,
    recover,
)
from tests.replica.serving_cluster import commit_everywhere, formed


def alone(cluster: SimCluster) -> None:
    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])


def test_a_suspended_group_is_told_and_goes_on_with_what_it_has() -> None:
    cluster = formed()
    commit_everywhere(cluster, 7)
    cluster.converge()
    lose_majority(cluster)
    disk = cluster.disks[SURVIVOR]
    disk.restart()
    store(disk, OFFSETS_WAL, Losses({GroupNo(0), GroupNo(2)}, unknown=True, whole={GroupNo(1)}).encoded())
    found = look(disk)
    assert [one.number for one in found.groups if one.suspended] == [0, 2, 3]
    alone(cluster)
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 7)
    commit_everywhere(cluster, 8)


def filled(cluster: SimCluster, count: int = 160) -> None:
    """So much in one partition that its WAL begins behind its beginning."""
    for number in range(count):
        leader = cluster.wait_leader(TOPIC_GROUP)
        log = cluster.nodes[leader].local_log(TOPIC_GROUP)
        assert log is not None
        codes: list[Code] = []
        batch = encode_batch([(None, b"%06d" % number * 5_000)], timestamp_ms=1_700_000_000_000)
        produce_when_room(log, batch, cluster.loops[leader].monotonic_ms() + 30_000, codes.append)
        cluster.world.run_until("acknowledged", lambda answers=codes: answers)
        assert codes == [Code.NONE]


def test_a_group_without_a_state_is_lost_and_the_others_serve() -> None:
    cluster = formed(checkpoint_bytes=100_000, segment_flush_ms=300, wal_bytes_max=2 << 20, trailing_entries=10)
    cluster.notice = lambda *_: None
    commit_everywhere(cluster, 7)
    filled(cluster)
    cluster.converge()
    lose_majority(cluster)
    disk = cluster.disks[SURVIVOR]
    disk.restart()
    whole = held(look(disk), TOPIC_GROUP)
    assert (whole.trouble, whole.log_end) == ("", 160)
    for name in disk.listdir(f"checkpoints/{TOPIC_GROUP}"):
        disk.damage(f"checkpoints/{TOPIC_GROUP}/{name}", 40, b"\xff" * 8)
    found = held(look(disk), TOPIC_GROUP)
    assert "no sound checkpoint" in found.trouble
    assert (found.log_end, found.certain_end) == (None, None), "nobody is told an offset that is not known"
    alone(cluster)
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 7)
    group = cluster.nodes[SURVIVOR].host.groups[TOPIC_GROUP]
    assert "no sound checkpoint" in group.trouble
    assert not group.serves
    assert members(cluster, SURVIVOR, TOPIC_GROUP).voters == (SURVIVOR,), "it can be healed from a backup of the file"


def test_a_damaged_controller_is_refused() -> None:
    cluster = formed()
    lose_majority(cluster)
    disk = cluster.disks[SURVIVOR]
    disk.restart()
    first = f"{OFFSETS_WAL}/0000000000000001.wal"
    content = disk.content(first)
    at = content.index(b"AbCd") if b"AbCd" in content else content.index(look(disk).record.cluster_id.encode())
    disk.damage(first, at, b"\xff")
    told = refusals_of(look(disk))
    assert told, "the command that formed the cluster is damaged"


def test_an_install_that_was_cut_off_is_completed_by_a_start_first() -> None:
    cluster = formed()
    lose_majority(cluster)
    disk = cluster.disks[SURVIVOR]
    disk.restart()
    disk.mkdir("incoming/4")
    files = (
        OfferedFile(FileKind.CHECKPOINT, checkpoint_name(900, 2), 99),
        OfferedFile(FileKind.SEGMENT, segment_name(0), 12),
    )
    offer = Offer(4, 4, 900, 2, RecoveryPoint(900, 5, 0, 12), files)
    identity.store(disk, f"incoming/4/{staging.COMPLETE}", staging._MAGIC, encode_offer(offer))
    found = look(disk)
    assert found.sealed == (4,)
    assert "start the replica once" in " ".join(refusals_of(found))


def test_a_partition_that_never_reached_the_folder_begins_empty_and_is_led() -> None:
    """The controller's log names the topic, and no entry of its group is here."""
    cluster = formed()
    cluster.kill(SURVIVOR)
    created = CreateTopic(name="unseen", topic_id=bytes([2]) * 16, partitions=1, configs=())
    cluster.wait_leader(0, among=[1, 2])
    assert cluster.submit(1, created).error == Code.NONE
    produce(cluster, b"lost", [1, 2], group=5)
    cluster.restart(SURVIVOR)
    cluster.world.run_until(
        "the survivor has the topic", lambda: "unseen" in getattr(cluster.nodes[SURVIVOR].image(), "topics", ()), 10_000
    )
    lose_majority(cluster)
    found = look(cluster.disks[SURVIVOR])
    assert "unseen-0" in [one.partition for one in found.groups]
    alone(cluster)
    assert cluster.wait_leader(5) == SURVIVOR
    produce(cluster, b"anew", group=5)


def test_a_log_whose_topic_is_unknown_is_told_and_its_number_not_given_again() -> None:
    """The lost majority made it, and this folder's controller has not heard of it: no other topic must get its log."""
    cluster = formed()
    lose_majority(cluster)
    disk = cluster.disks[SURVIVOR]
    disk.restart()
    disk.mkdir("segments/77/lost-0")
    assert look(disk).next_group == 78
    alone(cluster)
    created = CreateTopic(name="later", topic_id=bytes([2]) * 16, partitions=1, configs=())
    assert cluster.submit(SURVIVOR, created).error == Code.NONE
    image = cluster.nodes[SURVIVOR].image()
    assert image is not None
    assert image.topics["later"].partitions[0].group == 78


def test_a_topic_made_while_one_replica_is_alone_is_led_when_the_next_has_joined() -> None:
    cluster = formed()
    lose_majority(cluster)
    alone(cluster)
    created = CreateTopic(name="later", topic_id=bytes([2]) * 16, partitions=1, configs=())
    assert cluster.submit(SURVIVOR, created).error == Code.NONE
    cluster.start_one(1)
    cluster.wait_ready([0, 1])
    produce(cluster, b"of two", group=5)
    cluster.start_one(2)
    cluster.wait_ready()
    await_members(cluster, {0, member_no(1, 1), member_no(2, 1)})
    cluster.converge()


def moved_to_1(cluster: SimCluster, topic_id: bytes) -> None:
    move = MovePartition(topic_id=topic_id, partition=0, voters=(BrokerId(1),))
    assert cluster.submit(1, move).error == Code.NONE

    def done() -> bool:
        image = cluster.nodes[1].image()
        assert image is not None
        return not image.topics[image.names_by_id[topic_id]].partitions[0].moves

    cluster.world.run_until("the end of the move", done, 60_000)


def test_a_partition_that_was_moved_away_and_is_still_here_serves_and_goes_where_it_is_wanted() -> None:
    cluster = formed()
    produce(cluster, b"one")
    cluster.converge()
    formed_node = cluster.nodes[SURVIVOR].formed
    assert formed_node is not None
    formed_node._moved_away._current = lambda call: None  # it stands aside, and hears no more
    moved_to_1(cluster, bytes([1]) * 16)
    cluster.converge([0])
    lose_majority(cluster)
    assert held(look(cluster.disks[SURVIVOR]), TOPIC_GROUP).log_end == 1
    alone(cluster)
    produce(cluster, b"two", [SURVIVOR])
    assert log_end(cluster, SURVIVOR) == 2


def test_a_partition_of_which_nothing_was_here_is_lost_and_the_others_serve() -> None:
    cluster = formed()
    commit_everywhere(cluster, 7)
    cluster.kill(SURVIVOR)
    cluster.wait_leader(0, among=[1, 2])
    elsewhere = CreateTopic(name="elsewhere", topic_id=bytes([2]) * 16, partitions=1, configs=())
    assert cluster.submit(1, elsewhere).error == Code.NONE
    moved_to_1(cluster, bytes([2]) * 16)
    produce(cluster, b"lost", [1, 2], group=5)
    cluster.restart(SURVIVOR)
    cluster.world.run_for(10_000)
    lose_majority(cluster)
    found = held(look(cluster.disks[SURVIVOR]), 5)
    assert (found.partition, found.trouble, found.log_end) == (
        "elsewhere-0",
        "its replicas are on other brokers",
        None,
    )
    alone(cluster)
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 7)
    assert 5 not in cluster.nodes[SURVIVOR].host.groups
