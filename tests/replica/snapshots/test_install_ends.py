"""A follower that is far behind comes level while writing goes on, whenever the link carries half as much again.

The link is as slow as the rate that the leader is told to keep. Before, the leader let go of what was written while the
follower fetched, and everything was fetched anew, for ever.
"""

import dataclasses
import errno
import random
from collections.abc import Callable

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.events import INSTALL_FAILED
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.raft.progress import ProgressState
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of
from muster_coordinator.replica.snapshots import install_payload
from muster_coordinator.replica.snapshots.install import CHUNK_AGAIN_MS, CHUNKS_IN_FLIGHT_MAX, SILENCE_MS, _Pull
from muster_coordinator.replica.snapshots.install_payload import Chunk
from muster_coordinator.replica.snapshots.install_source import FOLLOW_MS

from tests.replica.cluster import SimCluster, produce_when_room
from tests.replica.snapshots.test_recovery import segment_bytes
from tests.sim.disk import SimDisk
from tests.sim.loop import Latency, World

BATCH_BYTES = 4_000
EVERY_MS = 20
WRITE_RATE = BATCH_BYTES * 1_000 // EVERY_MS
LINK_RATE = WRITE_RATE * 3 // 2
SETTINGS = {
    "wal_file_bytes": 512 * KIB,
    "wal_bytes_max": 4 * MIB,
    "checkpoint_bytes": 100 * KIB,
    "trailing_entries": 20,
    "segment_flush_ms": 1_000,
    "install_rate": LINK_RATE,
}
TOPIC = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=(("segment.bytes", "300000"),))


class Writer:
    """Produces without end, through whoever leads."""

    def __init__(self, cluster: SimCluster, group: GroupNo) -> None:
        self.cluster = cluster
        self.group = group
        self.batch = encode_batch([(b"k", bytes(BATCH_BYTES))], timestamp_ms=1_700_000_000_000)
        self.asked = 0
        self.codes: list[Code] = []
        self.stopped = False
        self.missed = 0

    def write(self) -> None:
        leader = self.cluster.leader_of(self.group)
        if leader is not None:
            clock = self.cluster.loops[leader]
            log = self.cluster.nodes[leader].local_log(self.group)
            self.asked += 1
            deadline_ms = clock.monotonic_ms() + 5_000
            assert log is not None
            produce_when_room(log, self.batch, deadline_ms, self.codes.append)

    def many(self, count: int) -> None:
        """As fast as it goes."""
        for _ in range(count // 20):
            for _ in range(20):
                self.write()
            self.cluster.world.run_until("answers", lambda: len(self.codes) == self.asked)

    def go_on(self) -> None:
        if self.stopped:
            return
        self.write()
        world = self.cluster.world
        world.at(world.now_us + EVERY_MS * 1_000, self.go_on)


def far_behind(
    seed: int, missed: int, meanwhile: Callable[[SimDisk, str], None] | None = None, **settings: int
) -> tuple[SimCluster, Writer, int, int]:
    """A running writer, a leader, and a follower that starts only now, `missed` batches behind; `meanwhile` is done to
    its disk and its partition's folder."""
    cluster = SimCluster(World(seed), partitions=1, **SETTINGS | settings)
    cluster.start()
    assert cluster.submit(0, TOPIC).error == Code.NONE
    group = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
    leader = cluster.wait_leader(group)
    writer = Writer(cluster, group)
    writer.many(200)
    late = next(broker for broker in cluster.nodes if broker != leader)
    cluster.world.run_for(1_500)
    cluster.kill(late)
    writer.many(missed)
    writer.missed = missed
    if meanwhile is not None:
        meanwhile(cluster.disks[late], cluster.nodes[leader].group_manager.states[group].folder)
    writer.go_on()
    cluster.restart(late)
    return cluster, writer, leader, late


def come_level(cluster: SimCluster, writer: Writer, leader: int, late: int) -> float:
    """Run until it streams; how many bytes the follower lacked by then."""
    group = cluster.nodes[leader].host.groups[writer.group]

    def level() -> bool:
        progress = group.core.progresses[late]
        return progress.state is ProgressState.REPLICATE and group.core.last_index - progress.match < 10

    began_us = cluster.world.now_us
    cluster.world.run_until("level", level, 60_000)
    seconds = (cluster.world.now_us - began_us) / 1e6
    cluster.world.run_for(5_000)
    assert level(), "and stays so"
    assert set(writer.codes) == {Code.NONE}, "writing went on"
    return BATCH_BYTES * writer.missed + WRITE_RATE * seconds


def same_segments(cluster: SimCluster, writer: Writer) -> None:
    writer.stopped = True
    cluster.world.run_for(1_000)
    cluster.converge([writer.group])
    first, *others = (segment_bytes(cluster, broker, writer.group) for broker in cluster.brokers)
    assert others == [first, first]


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_comes_level_over_a_link_of_half_as_much_again_as_is_written(seed: int) -> None:
    """And fetches no more than it lacks, however often it has to begin again."""
    cluster, writer, leader, late = far_behind(seed, 300 + 100 * seed)
    lacked = come_level(cluster, writer, leader, late)
    assert cluster.nodes[late].formed.installs.bytes_received <= 1.2 * lacked
    same_segments(cluster, writer)
    cluster.world.run_for(limits.INSTALL_HOLD_MS)
    assert not cluster.nodes[leader].formed.installs.source._sessions, "no checkpoint stays open"


def test_what_is_written_while_a_large_state_is_checked_and_put_in_place_is_kept() -> None:
    """A gigabyte takes longer to check than a follower may be silent; before, everything began anew."""
    cluster, writer, leader, late = far_behind(11, 300, wal_bytes_max=32 * MIB)
    installs = cluster.nodes[late].formed.installs
    cluster.world.run_until("all is fetched", lambda: writer.group in installs._installing, 60_000)
    slow_us = 1_000 * (limits.INSTALL_HOLD_MS + 4 * FOLLOW_MS)
    cluster.loops[late].latency["transfer"] = Latency(slow_us, slow_us)
    cluster.world.run_until("it is in place", lambda: installs.installed[writer.group], 4 * slow_us // 1_000)
    cluster.loops[late].latency["transfer"] = Latency()
    come_level(cluster, writer, leader, late)
    assert installs.installed[writer.group] == 1
    same_segments(cluster, writer)


def test_a_follower_that_never_puts_its_state_in_place_is_not_waited_for_for_ever() -> None:
    cluster, writer, leader, late = far_behind(12, 300, wal_bytes_max=32 * MIB)
    installs = cluster.nodes[late].formed.installs
    cluster.world.run_until("all is fetched", lambda: writer.group in installs._installing, 60_000)
    never_us = 10_000 * limits.INSTALL_MS_MAX
    cluster.loops[late].latency["transfer"] = Latency(never_us, never_us)
    writer.stopped = True
    group = cluster.nodes[leader].host.groups[writer.group]
    cluster.world.run_for(2 * limits.INSTALL_HOLD_MS)
    held = group.core.log.compacted_index
    cluster.world.run_for(limits.INSTALL_MS_MAX)
    writer.stopped = False
    writer.many(200)
    cluster.world.run_for(5_000)
    writer.many(200)
    cluster.world.run_until("the log is compacted", lambda: group.core.log.compacted_index > held + 200, 60_000)


def test_bytes_that_differ_are_fetched_whatever_name_and_size_say() -> None:
    def flip(disk: SimDisk, folder: str) -> None:
        for name in disk.listdir(folder):
            if name.endswith(".log"):
                disk.damage(f"{folder}/{name}", 61 + random.Random(1).randrange(30_000), b"\xaa")

    cluster, writer, leader, late = far_behind(11, 300, flip)
    come_level(cluster, writer, leader, late)
    same_segments(cluster, writer)


def test_a_leader_of_an_earlier_release_is_not_asked_for_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = install_payload.encode_offer
    monkeypatch.setattr(install_payload, "encode_offer", lambda offer: encode(offer)[:-1])
    monkeypatch.setattr(install_payload, "encode_check_ask", None)
    cluster, writer, _, late = far_behind(12, 300)
    cluster.world.run_until("installed", lambda: cluster.nodes[late].formed.installs.installed[writer.group], 60_000)
    assert cluster.nodes[late].formed.installs.bytes_reused == 0


def test_a_file_system_without_second_names_renames_what_is_staged_and_fetches_what_lies_here() -> None:
    def refuse(disk: SimDisk, folder: str) -> None:
        def cost(operation: str, path: str, size: int) -> None:
            if operation == "link":
                raise OSError(errno.EPERM, "no hard links here", path)

        disk.cost = cost

    cluster, writer, _, late = far_behind(13, 300, refuse)
    cluster.world.run_until("installed", lambda: cluster.nodes[late].formed.installs.installed[writer.group], 60_000)
    incoming = f"incoming/{writer.group}"
    assert not [name for name in cluster.disks[late].listdir(incoming) if name.endswith(".ckpt")]


def test_what_leaves_for_followers_in_install_keeps_to_its_rate() -> None:
    cluster, _, leader, _ = far_behind(14, 600)
    source = cluster.nodes[leader].formed.installs.source
    cluster.world.run_until("it began", lambda: source.bytes_sent, 10_000)
    before = source.bytes_sent
    cluster.world.run_for(4_000)
    sent = source.bytes_sent - before
    assert 0.7 * 4 * LINK_RATE < sent < 4 * LINK_RATE + 2 * limits.INSTALL_CHUNK_BYTES


def test_a_place_that_an_install_leaves_is_taken_at_once() -> None:
    """Leaders repeat an offer once a second only. A follower that is the second of three voters holds its group up."""
    cluster = SimCluster(World(5), partitions=1, **SETTINGS | {"install_rate": 100 * MIB})
    cluster.start()
    assert cluster.submit(0, dataclasses.replace(TOPIC, partitions=6)).error == Code.NONE
    groups = [GroupNo(row.group) for row in cluster.nodes[0].image().topics["data"].partitions]
    late = 2
    cluster.kill(late)
    for group in groups:
        cluster.wait_leader(group)
    for group in groups:
        Writer(cluster, group).many(100)
    cluster.world.run_for(3_000)
    cluster.restart(late)
    installs = cluster.nodes[late].formed.installs
    cluster.world.run_until("the first is installed", lambda: sum(installs.installed.values()), 5_000)
    assert len(groups) > limits.INSTALLS_MAX
    cluster.world.run_until("all are installed", lambda: all(installs.installed[group] for group in groups), 500)


def test_one_install_is_enough_where_the_wal_has_room_for_what_is_written_meanwhile() -> None:
    """What came after the checkpoint is streamed: the leader's WAL keeps it for a follower that comes nearer."""
    cluster, writer, leader, late = far_behind(0, 700, wal_bytes_max=16 * MIB)
    lacked = come_level(cluster, writer, leader, late)
    installs = cluster.nodes[late].formed.installs
    assert installs.installed[writer.group] == 1
    assert installs.bytes_received <= lacked
    wal = cluster.nodes[leader].host.groups[writer.group].wal_writer.wal
    cluster.world.run_for(limits.INSTALL_HOLD_MS + 3 * FOLLOW_MS)
    assert wal.used_bytes() < 4 * MIB, "nothing is kept for it any more"
    same_segments(cluster, writer)


def test_a_write_that_finishes_after_its_install_ended_is_not_counted_for_the_next_one() -> None:
    """The next install removes the file, so to fetch from behind those bytes would leave a hole of zeros."""
    cluster, writer, leader, late = far_behind(16, 300, wal_bytes_max=32 * MIB)
    installs = cluster.nodes[late].formed.installs
    chunk, ended = installs._chunk, []

    def interrupted(peer: BrokerId, got: Chunk) -> None:
        """The link to the leader breaks just after the first bytes of a segment of several chunks have come."""
        pull = installs._pulls.get(got.install)
        first = isinstance(pull, _Pull) and not ended and got.offset == 0 and pull.offer.files[got.file].size
        if pull is not None and first and first > limits.INSTALL_CHUNK_BYTES:
            cluster.loops[late].latency["transfer"] = Latency(100_000, 100_000)
            chunk(peer, got)
            ended.append(got.install)
            installs.peer_down(BrokerId(leader))
            installs._pull_from(pull.group, BrokerId(leader), pull.group.core.applied)
        else:
            chunk(peer, got)

    installs._chunk = interrupted
    cluster.world.run_until("installed", lambda: installs.installed[writer.group], 60_000)
    cluster.loops[late].latency["transfer"] = Latency()
    assert ended
    assert installs._numbers == 2, "the second one succeeds"
    come_level(cluster, writer, leader, late)
    same_segments(cluster, writer)


@pytest.mark.parametrize("lost", [Kind.CHUNK_ASK, Kind.CHUNK], ids=["a refused request", "a dropped chunk"])
def test_a_lost_message_about_a_chunk_does_not_end_an_install(lost: Kind) -> None:
    cluster, writer, leader, late = far_behind(17, 300, wal_bytes_max=32 * MIB)
    net = cluster.nodes[late if lost is Kind.CHUNK_ASK else leader]._net
    send, dropped = net.send, []

    def lossy(peer: BrokerId, channel: int, payload: bytes) -> bool:
        if kind_of(payload) is lost and not dropped:
            dropped.append(payload)
            return lost is not Kind.CHUNK_ASK
        return send(peer, channel, payload)

    net.send = lossy
    installs = cluster.nodes[late].formed.installs
    come_level(cluster, writer, leader, late)
    assert dropped
    assert installs._numbers == 1, "one transfer"
    same_segments(cluster, writer)


def test_requests_for_chunks_that_never_come_end_with_the_silence() -> None:
    cluster, writer, leader, late = far_behind(18, 300, wal_bytes_max=32 * MIB)
    net = cluster.nodes[late]._net
    send, asked = net.send, []

    def lossy(peer: BrokerId, channel: int, payload: bytes) -> bool:
        if kind_of(payload) is Kind.CHUNK_ASK:
            asked.append(payload)
            return False
        return send(peer, channel, payload)

    net.send = lossy
    installs = cluster.nodes[late].formed.installs
    cluster.world.run_until("it is given up", lambda: cluster.told(INSTALL_FAILED, late), 60_000)
    assert len(asked) <= CHUNKS_IN_FLIGHT_MAX * (SILENCE_MS // CHUNK_AGAIN_MS + 1)
    net.send = send
    come_level(cluster, writer, leader, late)
    assert installs._numbers > 1
    same_segments(cluster, writer)
