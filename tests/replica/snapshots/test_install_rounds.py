"""A follower that needs one install after the other pays in each for what came since, not for its whole log.

What lies here already is proven here: nothing is asked of the leader, whose link is the scarce part, and nothing is
read or synced a second time. What cannot be proven here (a damaged byte, an epoch that no CRC covers) is asked for and
fetched.
"""

from collections import Counter
from dataclasses import replace

import pytest
from muster_coordinator.errors import Code, WireError
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import MIB, PEER_FRAME_BYTES_MAX
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of
from muster_coordinator.replica.snapshots import install_payload
from muster_coordinator.replica.snapshots.install import ALIVE_MS, SILENCE_MS, _Pull
from muster_coordinator.replica.snapshots.install_payload import (
    FileKind,
    Offer,
    OfferedFile,
    decode_check,
    decode_check_ask,
)
from muster_coordinator.replica.snapshots.install_source import FOLLOW_MS
from muster_coordinator.storage.contract import RecoveryPoint

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_install_ends import (
    BATCH_BYTES,
    SETTINGS,
    TOPIC,
    Writer,
    come_level,
    far_behind,
    same_segments,
)
from tests.sim.disk import SimDisk
from tests.sim.loop import Latency, World

FAST = 4 * MIB
"""Bytes a second of the link: here rounds are counted, not seconds."""


class Questions:
    """Asked for checksums of ranges, signs of life apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self.alive = 0
        encode = install_payload.encode_check_ask

        def count(install: int, file: int, offset: int, length: int) -> bytes:
            if length > 1:
                self.asked.append((file, offset, length))
            else:
                self.alive += 1
            return encode(install, file, offset, length)

        monkeypatch.setattr(install_payload, "encode_check_ask", count)


def watched(disk: SimDisk) -> Counter[tuple[str, str]]:
    """(operation, name of a segment) -> times, from now on."""
    seen: Counter[tuple[str, str]] = Counter()

    def cost(operation: str, path: str, size: int) -> None:
        if path.endswith(".log"):
            seen[operation, path.rpartition("/")[2]] += 1

    disk.cost = cost
    return seen


def fall_behind(cluster: SimCluster, writer: Writer, leader: int, late: int, missed: int) -> None:
    """Cut off until the leader has let go of what it needs next."""
    group = cluster.nodes[leader].host.groups[writer.group]
    match = group.core.progresses[late].match
    cluster.net.isolate(late)
    writer.many(missed)
    cluster.world.run_until("the log is compacted", lambda: group.core.log.compacted_index > match, 60_000)
    cluster.net.heal()


def test_a_round_costs_what_came_since_and_not_what_the_log_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, writer, leader, late = far_behind(21, 600, install_rate=FAST)
    come_level(cluster, writer, leader, late)
    installs = cluster.nodes[late].formed.installs
    known = set(installs._own.known(writer.group))
    questions = Questions(monkeypatch)
    for installed in (2, 3):
        assert len(known) >= 8 * installed - 8
        seen = watched(cluster.disks[late])
        fall_behind(cluster, writer, leader, late, 600)
        before = installs.bytes_received
        cluster.world.run_until("again", lambda wanted=installed: installs.installed[writer.group] >= wanted, 60_000)
        come_level(cluster, writer, leader, late)
        assert installs.bytes_received - before < 1.5 * 600 * BATCH_BYTES
        touched = {name for (operation, name) in seen if operation in ("pread", "sync")}
        grew = {max(known)}
        assert not touched & known - grew, "what a transfer verified and synced is neither read nor synced again"
        known = set(installs._own.known(writer.group))
        assert len({file for file, _, _ in questions.asked}) <= 1, "one was sealed since its sidecar was written"
        assert all(file > len(known) // 2 for file, _, _ in questions.asked), "none of an earlier round"
        questions.asked.clear()
    cluster.disks[late].cost = None
    same_segments(cluster, writer)


def test_after_a_restart_own_segments_are_proven_here_and_the_leader_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions = Questions(monkeypatch)
    cluster, writer, leader, late = far_behind(24, 600, install_rate=FAST)
    lacked = come_level(cluster, writer, leader, late)
    installs = cluster.nodes[late].formed.installs
    assert installs.bytes_reused > 700_000, "sealed segments, and the beginning of the one that grew"
    assert installs.bytes_received <= 1.1 * lacked
    unflushed = "those that were sealed after the last flush before the power loss: their sidecars were not whole"
    assert len({file for file, _, _ in questions.asked}) <= 2, unflushed
    same_segments(cluster, writer)


@pytest.mark.parametrize("at", [15, 100], ids=["an epoch, which no CRC covers", "a byte of a record"])
def test_what_cannot_be_proven_here_is_asked_for_and_fetched(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = Questions(monkeypatch)

    def flip(disk: SimDisk, folder: str) -> None:
        assert disk.exists(f"{folder}/{0:020}.sidx")
        path = f"{folder}/{0:020}.log"
        disk.damage(path, at, bytes([disk.content(path)[at] ^ 1]))

    cluster, writer, leader, late = far_behind(23, 600, flip, install_rate=FAST)
    come_level(cluster, writer, leader, late)
    assert 1 in {file for file, _, _ in questions.asked}
    assert len({file for file, _, _ in questions.asked}) <= 3
    same_segments(cluster, writer)


@pytest.mark.parametrize("lost", [Kind.CHECK_ASK, Kind.CHECK], ids=["a question", "an answer"])
def test_a_lost_message_about_checksums_does_not_hold_an_install_for_ever(lost: Kind) -> None:
    """The signs of life go on, so neither side takes the other for silent. Seed 259 of the simulator."""

    def flip(disk: SimDisk, folder: str) -> None:
        path = f"{folder}/{0:020}.log"
        disk.damage(path, 15, bytes([disk.content(path)[15] ^ 1]))

    cluster, writer, leader, late = far_behind(23, 600, flip, install_rate=FAST)
    net = cluster.nodes[late if lost is Kind.CHECK_ASK else leader]._net
    send, dropped = net.send, []

    def lossy(peer: BrokerId, channel: int, payload: bytes) -> bool:
        if kind_of(payload) is lost and not dropped:
            length = decode_check_ask(payload)[3] if lost is Kind.CHECK_ASK else decode_check(payload).length
            if length > 1:
                dropped.append(payload)
                return True
        return send(peer, channel, payload)

    net.send = lossy
    come_level(cluster, writer, leader, late)
    assert dropped
    assert cluster.nodes[late].formed.installs._numbers == 1, "one transfer"
    same_segments(cluster, writer)


@pytest.mark.parametrize("seed", range(24, 28))
def test_a_leader_waits_for_a_follower_that_is_busy_with_its_own_segments(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for one whose disk takes longer for a chunk than a leader may be silent, as the last jobs here do."""
    questions = Questions(monkeypatch)
    cluster, writer, leader, late = far_behind(seed, 600, install_rate=FAST, wal_bytes_max=32 * MIB)
    installs = cluster.nodes[late].formed.installs

    def busy() -> bool:
        return any(isinstance(pull, _Pull) and pull.looks for pull in installs._pulls.values())

    cluster.world.run_until("it looks at its own", busy, 60_000)
    slow_us = 1_000 * (SILENCE_MS + 1_000)
    cluster.loops[late].latency["transfer"] = Latency(slow_us, slow_us)
    cluster.world.run_until("it has looked, and copied", lambda: not busy(), 120_000)
    cluster.loops[late].latency["transfer"] = Latency()
    assert questions.alive * ALIVE_MS >= 1.5 * limits.INSTALL_HOLD_MS
    come_level(cluster, writer, leader, late)
    assert installs._numbers == 1, "one transfer, never dropped"


def test_what_a_follower_needs_after_an_install_is_kept_for_as_long_as_it_comes_nearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long that takes: 500 MB are a minute and more of a link."""
    cluster, writer, leader, late = far_behind(15, 300, install_rate=FAST, wal_bytes_max=32 * MIB)
    monkeypatch.setattr(limits, "FOLLOWED_ENTRIES", -1)  # nobody is near enough
    come_level(cluster, writer, leader, late)
    group, clock = cluster.nodes[leader].host.groups[writer.group], cluster.loops[leader]
    before = group.core.progresses[late].match
    cluster.world.run_for(limits.INSTALL_HOLD_MS + 6 * FOLLOW_MS)
    held, until_ms = group._held[BrokerId(late)]
    assert held > before
    assert until_ms > clock.monotonic_ms()
    writer.stopped = True
    cluster.world.run_for(3 * FOLLOW_MS)
    assert group._held[BrokerId(late)][1] <= clock.monotonic_ms(), "it comes no nearer"


def test_a_partition_of_more_segments_than_a_frame_names_is_transferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offer takes several frames, and the manifest of what is sealed names all."""
    monkeypatch.setattr(limits, "INSTALL_OFFER_FILES_MAX", 50)
    cluster = SimCluster(World(25), partitions=1, **SETTINGS | {"install_rate": FAST})
    cluster.start()
    assert cluster.submit(0, replace(TOPIC, configs=(("segment.bytes", "100"),))).error == Code.NONE
    group = GroupNo(cluster.nodes[0].image().topics["data"].partitions[0].group)
    leader = cluster.wait_leader(group)
    writer = Writer(cluster, group)
    writer.batch = encode_batch([(b"k", b"")], timestamp_ms=1_700_000_000_000)
    late = next(broker for broker in cluster.nodes if broker != leader)
    cluster.kill(late)
    writer.many(300)
    group_manager = cluster.nodes[leader].group_manager
    assert len(group_manager.states[group].log.files()) >= 300
    published: list[None] = []
    group_manager.checkpoints.want(group, lambda: published.append(None))
    cluster.world.run_until("a checkpoint", lambda: bool(published), 20_000)
    held = cluster.nodes[leader].host.groups[group]
    held.compact(held.applied)
    cluster.restart(late)
    installs = cluster.nodes[late].formed.installs
    cluster.world.run_until("it is in place", lambda: bool(installs.installed[group]), 60_000)
    same_segments(cluster, writer)


def offered(files: int) -> Offer:
    segments = [OfferedFile(FileKind.SEGMENT, f"{base:020}.log", 2**40) for base in range(files)]
    checkpoint = OfferedFile(FileKind.CHECKPOINT, f"{7:020}-{1:010}.ckpt", 9)
    return Offer(1, 2, 7, 1, RecoveryPoint(7, files, files - 1, 5), (checkpoint, *segments), True)


@pytest.mark.parametrize("files", [1, 3_999, 4_000, 5_000, 20_000])
def test_an_offer_of_any_number_of_files_comes_in_frames_that_a_link_takes(files: int) -> None:
    offer = offered(files)
    frames = [install_payload.encode_offer(part) for part in install_payload.parts(offer)]
    assert all(len(frame) <= PEER_FRAME_BYTES_MAX for frame in frames)
    assert len(frames) == 1 + (files - 1) // (limits.INSTALL_OFFER_FILES_MAX - 1)
    first, *others = (install_payload.decode_offer(frame) for frame in frames)
    assert all(part.more and part.recovery_point is None for part in (first, *others)[:-1])
    for part in others:
        first = install_payload.joined(first, part)
    assert first == offer


def test_parts_of_different_offers_and_more_files_than_the_limit_are_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = install_payload.parts(offered(5_000))
    with pytest.raises(WireError, match="different"):
        install_payload.joined(first, last._replace(index=8))
    monkeypatch.setattr(limits, "INSTALL_FILES_MAX", 5_000)
    with pytest.raises(WireError, match="5001 files"):
        install_payload.joined(first, last)
