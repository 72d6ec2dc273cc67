"""Bits flip where they may, of a minority only; a replica that lost its disk stays out until it is replaced, and the
others serve."""

import random

import pytest
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, member_no
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.group_manager import OFFSETS_WAL
from muster_coordinator.storage.wal_format import FILE_HEADER_BYTES

from tests.sim import rot
from tests.sim.cluster import OF_ROT, Cluster, Replica, Setup
from tests.sim.disk import SimDisk
from tests.sim.history import Violation
from tests.sim.logs import damaged_logs
from tests.sim.oracle import Oracle
from tests.sim.plan import draw
from tests.sim.replacements import REPLACED_MS_MAX, Replacements
from tests.sim.rot import Harm
from tests.sim.run import Run, check_emptied

STORED = {"wal_file_bytes": 128 * 1024, "checkpoint_bytes": 4 * 1024, "offsets_segment_bytes": 8 * 1024}


def serving(seed: str, **node: int) -> Cluster:
    cluster = Cluster(Setup(seed=seed, mesh=True, node=node))
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 10_000)
    cluster.world.run_until("settled", cluster.settled, 10_000)
    return cluster


def emptied(cluster: Cluster, broker: int) -> Replica:
    """The replica, started anew without its disk."""
    replica = cluster.replicas[broker]
    replica.kill()
    replica.lose_disk()
    replica.start()
    return replica


@pytest.fixture(scope="module")
def worked() -> Cluster:
    """After a run without faults that stored something of everything; replica 0 was killed then."""
    plan = draw(1, kinds=(), storm_ms=4_000, topics=True)
    plan.setup.node.update(STORED)
    run = Run(plan)
    assert not run.run().failed
    replica = run.cluster.replicas[0]
    replica.kill()
    for path in replica.disk.files():
        replica.disk.open(path).sync()
        replica.disk.sync_dir(path.rpartition("/")[0])
    return run.cluster


@pytest.fixture
def disk(worked: Cluster) -> SimDisk:
    return worked.replicas[0].disk.durable_copy()


def test_of_no_group_more_than_a_minority_is_harmed() -> None:
    harm = Harm(3)
    harm.note(0, 4)
    assert harm.may(0, 4)
    assert not harm.may(1, 4)
    assert harm.may(1, 5), "another group"
    assert not harm.may(1, None), "all groups of another replica, group 4 among them"
    harm.note(0, None)
    assert not harm.may(1, 5)
    assert harm.may(0, 5)


def test_of_five_two_may_be_harmed_of_one_none() -> None:
    harm = Harm(5)
    harm.note(0, None)
    harm.note(1, 4)
    assert not harm.may(2, 4)
    assert not harm.may(2, None)
    assert harm.may(2, 5)
    assert harm.may(1, None)
    assert not Harm(1).may(0, 4)


def test_what_a_lost_disk_harmed_is_whole_again_when_it_is_replaced_and_what_a_bit_harmed_since_is_not() -> None:
    harm = Harm(3)
    harm.note(0, 4)
    harm.note(0, None)
    harm.note(0, 5)
    assert not harm.may(1, 6)
    harm.undo(0)
    assert harm.may(1, 4)
    assert harm.may(1, 6)
    assert not harm.may(1, 5), "of the new disk"
    assert not harm.may(1, None)


def test_places_are_of_every_kind_and_none_of_what_says_who_the_replica_is_or_still_grows(
    disk: SimDisk,
) -> None:
    found = rot.places(disk, wal=True)
    assert {place.what for place in found} == {rot.SEGMENT, rot.SIDECAR, rot.CHECKPOINT, rot.WAL, rot.PROOF}
    assert not {"identity", "cluster", "born"} & {place.path for place in found}
    growing = {max(p for p in disk.files() if p.startswith(f) and p.endswith(".log")) for f in ("segments/1/",)}
    assert not growing & {place.path for place in found}
    assert all(place.group is not None for place in rot.places(disk, wal=False))


def test_of_a_wal_any_batch_may_be_damaged_and_the_last_one_by_itself(disk: SimDisk) -> None:
    found = [p for p in rot.places(disk, wal=True) if p.what == rot.WAL and p.path.startswith(OFFSETS_WAL)]
    place = max(found, key=lambda p: (p.path, p.start))
    ends = rot.batch_ends(disk.content(place.path))
    assert (place.start, place.stop) == (ends[-2], ends[-1])
    others = {(p.start, p.stop) for p in found if p.path == place.path} - {(place.start, place.stop)}
    assert others == {(FILE_HEADER_BYTES, ends[-1])}
    assert not disk.content(place.path)[place.stop :].strip(b"\0")
    disk.damage(place.path, place.stop + 40, b"torn")
    assert rot.batch_ends(disk.content(place.path)) == [], "it is not known how much of this was promised"


def test_a_flip_is_one_bit_and_is_remembered(disk: SimDisk) -> None:
    before = {path: disk.content(path) for path in disk.files()}
    harm = Harm(3)
    assert rot.flip(disk, harm, 0, random.Random(5), wal=True)
    changed = [path for path in disk.files() if disk.content(path) != before[path]]
    assert len(changed) == 1
    one, other = (int.from_bytes(content, "big") for content in (before[changed[0]], disk.content(changed[0])))
    assert (one ^ other).bit_count() == 1
    assert harm.rotten == {0}
    assert rot.flip(disk, harm, 1, random.Random(5), wal=True) is None or changed[0].startswith(("seg", "check"))


def test_a_flipped_bit_in_a_sealed_segment_is_seen_at_the_end_and_fetched_again(worked: Cluster) -> None:
    cluster, disk = worked, worked.replicas[0].disk
    place = next(p for p in rot.places(disk, wal=False) if p.what == rot.SEGMENT)
    disk.damage(place.path, place.stop - 1, bytes([disk.content(place.path)[place.stop - 1] ^ 1]))
    cluster.harm.rotten.add(0)
    cluster.replicas[0].start()
    cluster.world.run_until("settled", cluster.settled, 20_000)
    assert damaged_logs(cluster)
    cluster.world.run_until("mended", lambda: not damaged_logs(cluster), 20_000)
    assert "a damaged segment was fetched again" in cluster.marks
    assert not cluster.violations
    cluster.replicas[0].kill()


def test_without_flipped_bits_nobody_may_tell_of_damage() -> None:
    cluster = serving("told")
    life = cluster.replicas[0].life
    assert life is not None
    told = next(iter(OF_ROT))
    with pytest.raises(AssertionError):
        life._noticed(told, {}, None)
    cluster.harm.rotten.add(1)
    life._noticed(told, {}, None)


def test_an_emptied_replica_stays_out_and_the_others_serve() -> None:
    cluster = serving("emptied")
    replica = emptied(cluster, 1)
    cluster.world.run_until("it says so", lambda: not check_emptied(cluster), 5_000)
    cluster.world.run_until("settled", cluster.settled, 10_000)
    assert replica.node.group_manager is None
    assert [voter.broker for voter in cluster.voters()] == [0, 2]
    replica.kill()
    replica.start()
    cluster.world.run_until("it says so again", lambda: not check_emptied(cluster), 5_000)
    cluster.world.run_until("settled", cluster.settled, 10_000)
    assert not cluster.violations


def test_an_emptied_replica_that_says_nothing_of_it_or_speaks_as_a_voter_is_noticed() -> None:
    cluster = serving("noticed")
    Oracle(cluster)
    replica = emptied(cluster, 2)
    cluster.world.run_until("it says so", lambda: not check_emptied(cluster), 5_000)
    replica.node.bootstrap.formation.status = ""
    assert [violation.invariant for violation in check_emptied(cluster)] == ["R7"]
    voter = cluster.replicas[0]
    voter.lost_members.add(0)
    cluster.world.run_for(5_000)
    assert "R7" in {violation.invariant for violation in cluster.violations}


def replaced(seed: str) -> tuple[Cluster, Oracle, Replica]:
    """Replica 1 lost its disk, and an administrator looks after it."""
    cluster = Cluster(Setup(seed=seed, mesh=True))
    oracle, replacements = Oracle(cluster), Replacements(cluster, seed)
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 10_000)
    cluster.world.run_until("settled", cluster.settled, 10_000)
    cluster.harm.note(1, None)
    replica = emptied(cluster, 1)
    replacements.lost(replica)
    cluster.world.run_until("replaced", lambda: not replacements.unfinished(), REPLACED_MS_MAX)
    return cluster, oracle, replica


def test_an_emptied_replica_that_is_replaced_is_a_voter_again_and_another_may_be_harmed() -> None:
    cluster, oracle, replica = replaced("replaced")
    assert not replica.emptied
    assert replica.node.host.member == member_no(BrokerId(1), 1)
    assert cluster.harm.may(2, None)
    cluster.world.run_until("settled", cluster.settled, 20_000)
    oracle.compare_members()
    assert not cluster.violations
    replica.node.host.groups[CONTROLLER_GROUP].core.config = Config((0, 1, 2))
    oracle.compare_members()
    assert [violation.invariant for violation in cluster.violations] == ["R9"]
    oracle.look()
    assert len(cluster.violations) == 1, "a replacement is a row of configurations that overlap"
    members = replica.node.host.groups[CONTROLLER_GROUP].core.members
    members.append(members.newest.at + 1, Config((7, 8, 9)))
    oracle.look()
    assert "could decide without each other" in str(cluster.violations[-1])


def test_at_a_level_that_cannot_replace_an_administrator_is_refused_and_says_so() -> None:
    cluster = serving("refused", feature_max=MEMBERS_LEVEL - 1)
    replacements = Replacements(cluster, "refused")
    replacements.lost(emptied(cluster, 1))
    cluster.world.run_for(10_000)
    assert ["feature level" in text for text in replacements.unfinished()] == [True]
    assert "replacing was refused: feature_level" in cluster.marks


def test_a_broken_link_and_a_link_too_many_are_noticed() -> None:
    cluster = serving("links")
    oracle, net = Oracle(cluster), cluster.net
    assert net.not_linked_once() == []  # type: ignore[union-attr]
    net.wire_errors.append((0, "peer frame on unknown writer 9"))  # type: ignore[arg-type]
    oracle.look()
    assert cluster.violations == [Violation("link", "a peer link broke: (0, 'peer frame on unknown writer 9')")]
    net.cut(BrokerId(0), BrokerId(1))
    cluster.world.run_for(3_000)
    assert net.not_linked_once()  # type: ignore[union-attr]
