"""A damaged sealed segment is fetched again from a peer, byte by byte what it was, or stays told and refused."""

import errno
from collections.abc import Callable
from functools import partial

import pytest
from muster_coordinator.controller.commands import DeleteTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.links import channels
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of
from muster_coordinator.replica.snapshots import install_payload, repair_files
from muster_coordinator.replica.snapshots.damage import TO_BE_FETCHED, WHAT
from muster_coordinator.replica.snapshots.install import NOT_AS_WRITTEN
from muster_coordinator.replica.snapshots.repair import FAILED, REPAIRED, SOUND

from tests.replica.cluster import SimCluster
from tests.replica.partitions.test_replicated_rolls import TOPIC_ID, Writer
from tests.replica.snapshots.test_damaged_segments import Told, damaged_leader, read
from tests.replica.snapshots.test_install_ends import far_behind, same_segments
from tests.sim.loop import World


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes and days of virtual time cost real ones."""
    for name, value_ms in (
        ("SCRUB_FIRST_MS", 4_000),
        ("SCRUB_PASS_MS", 10_000),
        ("REPAIR_RETRY_MS", 3_000),
        ("REPAIR_SILENCE_MS", 2_000),
    ):
        monkeypatch.setattr(limits, name, value_ms)


class Rotten:
    """Three replicas; the leader's first sealed segment is flipped at one byte."""

    def __init__(self, seed: int = 1, at: int = 100, **settings: object) -> None:
        self.cluster = SimCluster(World(seed), **{"segment_flush_ms": 200, **settings})
        self.told = Told(self.cluster)
        self.cluster.start()
        self.writer, self.leader, self.name, _ = damaged_leader(self.cluster)
        self.sound = self.cluster.disks[self.leader].content(self.name)
        self.group = GroupNo(self.writer.group)
        self.rot(self.leader, at)

    def rot(self, broker: int, at: int = 100) -> None:
        self.cluster.disks[broker].damage(self.name, at, bytes([self.sound[at] ^ 0x10]))

    def met(self, broker: int | None = None) -> None:
        """A reader meets the damage."""
        broker = self.leader if broker is None else broker
        assert read(self.cluster, broker, self.group).code == Code.KAFKA_STORAGE_ERROR

    def told_of(self, what: str, broker: int | None = None) -> list[dict]:
        found = self.told.found[self.leader if broker is None else broker]
        return [details for name, details in found if name == what]

    def damaged(self, broker: int | None = None) -> list:
        return self.cluster.nodes[self.leader if broker is None else broker].group_status(self.group).damaged

    def run_until(self, what: str, check: Callable[[], object], ms: float = 10_000) -> None:
        self.cluster.world.run_until(what, check, ms)

    def repaired(self, ms: float = 10_000) -> None:
        self.run_until("repaired", lambda: self.told_of(REPAIRED), ms)
        self.whole()

    def whole(self) -> None:
        """As it was written, and served, told, and nothing left behind."""
        disk = self.cluster.disks[self.leader]
        assert disk.content(self.name) == self.sound
        assert not self.damaged()
        result = read(self.cluster, self.leader, self.group)
        assert result.code == Code.NONE
        assert self.sound.startswith(result.records)
        self.cluster.world.run_for(100)
        assert not disk.listdir(repair_files.FOLDER)
        self.writer.write(3)
        self.cluster.converge([self.group])

    def others(self) -> list[int]:
        return [int(broker) for broker in self.cluster.brokers if broker != self.leader]


def slow_chunks(rotten: Rotten) -> list[int]:
    """Chunks do not leave the peers any more; their count grows with what was asked for."""
    held: list[int] = []
    for broker in rotten.others():
        node = rotten.cluster.nodes[broker]
        net = node._net
        send = net.send

        def drop(peer, channel, payload, send=send):
            if channel == channels.BULK and kind_of(payload) is Kind.CHUNK:
                held.append(int(peer))
                return True
            return send(peer, channel, payload)

        net.send = drop
    return held


@pytest.mark.parametrize("at", [0, 11, 14, 16, 20, 40, 200, -5])
def test_what_a_reader_met_is_fetched_again_byte_by_byte_and_told(at: int) -> None:
    rotten = Rotten(1, at % 600 if at >= 0 else at)
    for offset in range(6):
        read(rotten.cluster, rotten.leader, rotten.group, offset)
    last = rotten.cluster.nodes[rotten.leader].group_manager.states[rotten.group].log.views()[0].next_offset - 1
    read(rotten.cluster, rotten.leader, rotten.group, last)
    assert len(rotten.told_of(WHAT)) == 1
    rotten.repaired()
    (details,) = rotten.told_of(REPAIRED)
    assert (details["group"], details["file"]) == (rotten.group, rotten.name)
    assert details["from"] in rotten.others()
    assert details["damage"]


def test_the_scrub_finds_what_nobody_reads_on_a_follower_and_heals_it() -> None:
    rotten = Rotten(2)
    rotten.leader = rotten.cluster.wait_leader(rotten.group)
    follower = rotten.others()[0]
    # The leader's is left alone here: the follower's own scrub is what must find it.
    rotten.cluster.disks[rotten.leader].damage(rotten.name, 100, rotten.sound[100:101])
    rotten.rot(follower, 300)
    rotten.leader = follower
    rotten.repaired(limits.SCRUB_FIRST_MS + 30_000)
    status = rotten.cluster.nodes[follower].scrub_status()
    assert (status.repaired, status.damaged, status.repair_failures) == (1, 0, 0)
    rotten.run_until("a whole pass", lambda: rotten.cluster.nodes[follower].scrub_status().passes, 10_000)


@pytest.mark.parametrize("rate", [0, 2_000])
def test_the_scrub_keeps_to_its_budget(rate: int) -> None:
    cluster = SimCluster(World(3), segment_flush_ms=200, scrub_rate=rate)
    Told(cluster)
    cluster.start()
    writer = Writer(cluster, **{"segment.ms": "5000"})
    writer.write(120, size=600)
    cluster.world.run_for(limits.SCRUB_FIRST_MS)
    node = cluster.nodes[0]
    before = node.scrub_status().checked_bytes
    cluster.world.run_for(10_000)
    checked = node.scrub_status().checked_bytes - before
    assert checked <= rate * 10 * 1.2
    assert checked >= rate * 10 // 2


def test_a_new_pass_begins_after_the_old_one_and_finds_what_rotted_in_between() -> None:
    rotten = Rotten(4)
    rotten.repaired(limits.SCRUB_FIRST_MS + 30_000)
    rotten.run_until("a whole pass", lambda: rotten.cluster.nodes[rotten.leader].scrub_status().passes, 60_000)
    rotten.rot(rotten.leader, 200)
    rotten.run_until("found", lambda: len(rotten.told_of(REPAIRED)) == 2, limits.SCRUB_PASS_MS)
    assert rotten.cluster.disks[rotten.leader].content(rotten.name) == rotten.sound


def test_without_any_whole_copy_it_stays_told_and_refused_and_the_rest_is_served() -> None:
    rotten = Rotten(5)
    for broker in rotten.others():
        rotten.rot(broker, 150)
    rotten.met()
    rotten.run_until("told", lambda: rotten.told_of(FAILED))
    (file,) = rotten.damaged()
    assert file.file == rotten.name.rpartition("/")[2]
    assert file.repair.startswith("no peer has a whole copy")
    rotten.met()
    leader = rotten.cluster.wait_leader(rotten.group)
    rotten.writer.write(3)
    last = rotten.cluster.nodes[leader].group_manager.states[rotten.group].next_offset - 1
    assert read(rotten.cluster, leader, rotten.group, last).code == Code.NONE
    assert all(rotten.told_of(WHAT, broker) for broker in rotten.others()), "the peers found theirs by being asked"
    # One of them comes back from a backup: all three heal.
    rotten.cluster.disks[rotten.others()[0]].damage(rotten.name, 150, rotten.sound[150:151])
    disks = rotten.cluster.disks.values()
    rotten.run_until("all", lambda: all(d.content(rotten.name) == rotten.sound for d in disks), 200_000)
    rotten.run_until("none told", lambda: not any(rotten.damaged(b) for b in rotten.cluster.brokers), 200_000)


def test_a_damaged_peer_is_passed_over_for_the_next_one() -> None:
    rotten = Rotten(6)
    voters = [b for b in rotten.cluster.nodes[rotten.leader].host.groups[rotten.group].voters if b != rotten.leader]
    rotten.rot(voters[0], 150)
    rotten.met()
    rotten.repaired()
    assert rotten.told_of(REPAIRED)[0]["from"] == voters[1]
    rotten.leader = int(voters[0])
    rotten.repaired()


def test_alone_it_stays_told() -> None:
    cluster = SimCluster(World(7), replicas=1, segment_flush_ms=200)
    told = Told(cluster)
    cluster.start()
    writer, leader, name, _ = damaged_leader(cluster)
    cluster.disks[leader].damage(name, 100, b"\xff\xff\xff")
    assert read(cluster, leader, writer.group).code == Code.KAFKA_STORAGE_ERROR
    cluster.world.run_until("told", lambda: FAILED in [what for what, _ in told.found[leader]], 5_000)
    assert cluster.nodes[leader].group_status(GroupNo(writer.group)).damaged[0].repair == "no peer has a whole copy"
    writer.write(3)


def test_a_peer_whose_segments_end_elsewhere_is_of_no_use() -> None:
    """Written before rolls were replicated: another size under the same name, or no such name."""
    rotten = Rotten(8, scrub_rate=0)
    first, second = rotten.others()
    log = rotten.cluster.nodes[first].group_manager.states[rotten.group].log
    longer = rotten.sound + rotten.cluster.disks[first].content(log._segments[1].path)
    cluster = rotten.cluster
    cluster.kill(first)
    names = sorted(n for n in cluster.disks[first].files() if n.startswith(rotten.name[:-24]) and n.endswith(".log"))
    cluster.disks[first].damage(names[0], 0, longer)
    cluster.disks[first].unlink(names[1])
    for name in [n for n in cluster.disks[first].files() if n.endswith(".sidx")]:
        cluster.disks[first].unlink(name)
    cluster.disks[first].sync_dir(rotten.name.rpartition("/")[0])
    cluster.restart(first)
    cluster.wait_ready()
    cluster.net.isolate(second)
    rotten.met()
    rotten.run_until("told", lambda: rotten.told_of(FAILED), 100_000)
    assert f"has {len(longer)} bytes, expected {len(rotten.sound)}" in rotten.damaged()[0].repair
    assert not any(what == WHAT for what, _ in rotten.told.found[first])
    cluster.net.heal()
    rotten.run_until("repaired by the other", lambda: rotten.told_of(REPAIRED), 200_000)
    assert cluster.disks[rotten.leader].content(rotten.name) == rotten.sound


def test_a_full_disk_costs_the_attempt_and_nothing_else() -> None:
    rotten = Rotten(9)
    disk = rotten.cluster.disks[rotten.leader]
    disk.fail_next("pwrite", errno.ENOSPC, repair_files.FOLDER)
    rotten.met()
    rotten.run_until("told", lambda: rotten.told_of(FAILED))
    assert "injected" in rotten.damaged()[0].repair
    rotten.cluster.world.run_for(100)
    assert not disk.listdir(repair_files.FOLDER)
    disk.capacity_bytes = disk._used() + limits.DISK_LOW_BYTES
    rotten.run_until("told again", lambda: len(rotten.told_of(FAILED)) == 2, limits.REPAIR_RETRY_MS + 5_000)
    assert "are free" in rotten.damaged()[0].repair
    disk.capacity_bytes = None
    rotten.repaired(limits.REPAIR_RETRY_MS + 5_000)


@pytest.mark.parametrize("operation", ["sync", "rename", "sync_dir"])
def test_an_error_of_the_disk_at_any_step_ends_no_process(operation: str) -> None:
    rotten = Rotten(10)
    path = "repair" if operation != "rename" else rotten.name
    rotten.cluster.disks[rotten.leader].fail_next(operation, errno.EIO, path)
    rotten.met()
    rotten.run_until("told", lambda: rotten.told_of(FAILED))
    rotten.run_until("whole", lambda: not rotten.damaged(), limits.REPAIR_RETRY_MS + 5_000)
    assert rotten.told_of(REPAIRED if operation != "sync_dir" else SOUND)
    rotten.whole()


def so_many(rotten: Rotten, effects: int) -> bool:
    return rotten.cluster.disks[rotten.leader].effects > effects or not rotten.damaged()


def is_sound(rotten: Rotten) -> bool:
    return rotten.cluster.disks[rotten.leader].content(rotten.name) == rotten.sound


def test_power_loss_at_many_points_of_a_repair_leaves_the_damaged_or_the_whole_file_and_a_start_that_heals() -> None:
    after, done = 0, False
    while not done:
        rotten = Rotten(11)
        cluster, leader = rotten.cluster, rotten.leader
        damaged = cluster.disks[leader].content(rotten.name)
        disk = cluster.disks[leader]
        begun = disk.effects
        rotten.met()
        rotten.run_until("so many", partial(so_many, rotten, begun + after))
        done = not rotten.damaged()
        cluster.kill(leader)
        assert disk.content(rotten.name) in (damaged, rotten.sound)
        cluster.restart(leader)
        cluster.wait_ready()
        rotten.run_until("sound", partial(is_sound, rotten), limits.SCRUB_FIRST_MS + 30_000)
        cluster.world.run_for(200)
        assert not disk.listdir(repair_files.FOLDER)
        after += 7  # each effect of the files themselves: `test_repair_files`
    assert after > 7


def test_retention_that_takes_the_segment_away_meanwhile_ends_the_repair() -> None:
    rotten = Rotten(12, retention_check_ms=500)
    held = slow_chunks(rotten)
    rotten.met()
    rotten.run_until("under way", lambda: held)
    rotten.writer.alter(("retention.bytes", "1"), ("segment.ms", "5000"))
    disk = rotten.cluster.disks[rotten.leader]
    rotten.run_until("gone", lambda: rotten.name not in disk.files(), 60_000)
    rotten.run_until("forgotten", lambda: not rotten.damaged(), limits.REPAIR_SILENCE_MS * 4)
    rotten.cluster.world.run_for(100)
    assert not rotten.told_of(REPAIRED)
    assert rotten.name not in disk.files(), "nothing may come back below the log start"
    assert not disk.listdir(repair_files.FOLDER)
    rotten.cluster.kill(rotten.leader)
    rotten.cluster.restart(rotten.leader)
    rotten.cluster.wait_ready()
    rotten.writer.write(3)
    rotten.cluster.converge([rotten.group])


def test_a_repair_that_an_install_overtakes_is_no_longer_told_as_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding is told until the next look at it, which may be long after."""
    rotten = Rotten(15)
    held = slow_chunks(rotten)
    rotten.met()
    rotten.run_until("under way", lambda: held)
    (found,) = rotten.damaged()
    assert found.repair == "is being fetched"
    repairs = rotten.cluster.nodes[rotten.leader].formed.installs.repairs
    monkeypatch.setattr(limits, "REPAIR_LOOK_MS", 1_000_000)
    rotten.cluster.world.run_for(limits.REPAIR_SILENCE_MS // 2)
    repairs._repair.log = None  # an install has put another log in place
    rotten.run_until("ended", lambda: repairs._repair is None)
    (found,) = rotten.damaged()
    assert found.repair == TO_BE_FETCHED


def test_a_topic_deleted_meanwhile_leaves_nothing() -> None:
    rotten = Rotten(13)
    held = slow_chunks(rotten)
    rotten.met()
    rotten.run_until("under way", lambda: held)
    assert rotten.cluster.submit(rotten.cluster.brokers[0], DeleteTopic(topic_id=TOPIC_ID)).error == Code.NONE
    rotten.cluster.world.run_for(limits.REPAIR_SILENCE_MS * 2 + 5_000)
    disk = rotten.cluster.disks[rotten.leader]
    assert not [name for name in disk.files() if name.startswith((f"segments/{rotten.group}/", "repair/"))]
    assert rotten.cluster.nodes[rotten.leader].scrub_status().damaged == 0


def test_the_peer_that_falls_silent_or_down_is_left_for_the_other() -> None:
    rotten = Rotten(14)
    held = slow_chunks(rotten)
    rotten.met()
    rotten.run_until("under way", lambda: held)
    asked = rotten.cluster.nodes[rotten.leader].formed.installs.repairs._repair.source.peer
    other = next(broker for broker in rotten.others() if broker != asked)
    del rotten.cluster.nodes[other]._net.send
    rotten.cluster.kill(int(asked))
    rotten.run_until("repaired", lambda: rotten.told_of(REPAIRED))
    assert rotten.told_of(REPAIRED)[0]["from"] == other
    rotten.cluster.restart(int(asked))
    rotten.cluster.wait_ready()
    rotten.whole()


def test_bytes_that_the_peer_did_not_promise_are_not_put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rotten = Rotten(15)
    encode = install_payload.encode_check
    monkeypatch.setattr(
        "muster_coordinator.replica.snapshots.install_source.wire.encode_check",
        lambda check: encode(check._replace(checksum=check.checksum ^ 1)),
    )
    rotten.met()
    rotten.run_until("told", lambda: rotten.told_of(FAILED))
    assert "the peer said" in rotten.damaged()[0].repair
    monkeypatch.undo()
    rotten.repaired(limits.REPAIR_RETRY_MS + 5_000)


def test_a_flush_and_a_checkpoint_under_way_are_waited_for() -> None:
    rotten = Rotten(16)
    node = rotten.cluster.nodes[rotten.leader]
    release = node.group_manager.checkpoints.pause(rotten.group)
    assert release is not None
    rotten.met()
    rotten.cluster.world.run_for(10_000)
    assert rotten.damaged()
    assert rotten.cluster.disks[rotten.leader].content(rotten.name) != rotten.sound
    release()
    rotten.repaired()


def test_a_release_without_repairs_refuses_the_question_in_words() -> None:
    """It takes the question for an install, which it gives only as a leader, and only of what it has applied."""
    payload = install_payload.encode_segment_ask(7, 3, 12)
    install, group, index = install_payload.decode_ask(payload)
    assert (install, group) == (7, 3)
    assert index == 12 | install_payload.SEGMENT_ASKED
    assert index > 2**62, "no log is applied so far"


def test_a_disk_that_reads_again_needs_no_peer() -> None:
    rotten = Rotten(17)
    rotten.met()
    rotten.cluster.disks[rotten.leader].damage(rotten.name, 100, rotten.sound[100:101])
    rotten.run_until("sound", lambda: rotten.told_of(SOUND))
    assert not rotten.told_of(REPAIRED)
    rotten.whole()


def test_a_leader_that_sends_a_damaged_segment_is_told_and_the_follower_in_install_comes_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else every install ends at the check of what arrived, for ever, and only the follower knows."""
    monkeypatch.setattr(limits, "SCRUB_FIRST_MS", 10**7)
    cluster, writer, leader, late = far_behind(0, 800)
    told: dict[int, list[str]] = {broker: [] for broker in cluster.nodes}
    for broker, node in cluster.nodes.items():
        for part in (node.group_manager, node.group_manager.damage, node.formed.installs, node.formed.installs.repairs):
            part._notice = lambda what, details, error, broker=broker: told[broker].append(what)
    state = cluster.nodes[leader].group_manager.states[writer.group]
    name = state.log.files()[-3][0]
    sound = cluster.disks[leader].content(name)
    cluster.disks[leader].damage(name, 5_000, bytes([sound[5_000] ^ 0x10]))
    cluster.world.run_until("the leader heard of it", lambda: WHAT in told[leader], 30_000)
    assert NOT_AS_WRITTEN in told[late]
    cluster.world.run_until("healed", lambda: REPAIRED in told[leader], 10_000)
    assert cluster.disks[leader].content(name) == sound
    writer.stopped = True
    cluster.world.run_for(1_000)
    cluster.converge([writer.group], 60_000)
    same_segments(cluster, writer)
