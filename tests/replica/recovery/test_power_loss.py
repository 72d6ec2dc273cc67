"""A recovery is cut off by a power loss at every point: the folder is the old one, or begins again and ends as it would
have without it (ADR 40)."""

import random

import pytest
from muster_coordinator.errors import Code, StorageFailed
from muster_coordinator.replica.bootstrap.identity import StartRefused, load_cluster
from muster_coordinator.replica.bootstrap.recovery_file import RECOVERY_FILE, load_recovery
from muster_coordinator.replica.recovery.execution import execute
from muster_coordinator.replica.recovery.plan import plan

from tests.replica.cluster import SimCluster
from tests.replica.recovery.lost_majority import (
    EPOCH_ID,
    SIZES,
    SURVIVOR,
    TOPIC_GROUP,
    fetched,
    held,
    log_end,
    look,
    lose_majority,
    produce,
    recover,
)
from tests.replica.serving_cluster import commit_everywhere, formed
from tests.sim.disk import PowerLoss, SimDisk


def left_over(seed: int = 1) -> tuple[SimCluster, SimDisk]:
    """A stopped cluster, and the folder that is left of it."""
    cluster = formed(seed)
    commit_everywhere(cluster, 7)
    produce(cluster, b"one")
    cluster.converge()
    lose_majority(cluster)
    return cluster, cluster.disks[SURVIVOR]


def copy_of(disk: SimDisk) -> SimDisk:
    disk.restart()
    return disk.durable_copy()


def assert_recovered(cluster: SimCluster, disk: SimDisk) -> None:
    assert load_cluster(disk)[1] is not None
    cluster.disks[SURVIVOR] = disk
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 7)
    assert log_end(cluster, SURVIVOR) == 1
    cluster.kill(SURVIVOR)


def test_a_power_loss_after_any_effect_is_made_good_by_the_same_command() -> None:
    cluster, whole = left_over()
    before = look(whole)
    rand = random.Random(7)
    completed = False
    effects = 0
    fates = {"as it was": 0, "begun": 0, "complete": 0}
    while not completed:
        disk = copy_of(whole)
        planned = plan(look(disk), EPOCH_ID)
        assert planned.recovery is not None
        disk.power_off_after(effects)
        try:
            execute(disk, look(disk), planned.recovery, SIZES)
            completed = True
        except PowerLoss:
            disk.crash(rand)
        record = load_cluster(disk)[1]
        assert record is not None
        begun = load_recovery(disk)
        if begun is not None:
            fates["begun"] += 1
            assert begun == planned.recovery
            cluster.disks[SURVIVOR] = disk
            with pytest.raises(StartRefused, match="run muster recover again"):
                cluster.start_one(SURVIVOR)
            disk.restart()
        elif record.epoch == 0:
            fates["as it was"] += 1
            now = look(disk)
            assert now == before._replace(identity=now.identity), "nothing was changed"
        else:
            fates["complete"] += 1
        if record.epoch == 0 or begun is not None:
            again = recover(disk, epoch_id=b"another id, of 16"[:16])
            assert begun is None or again == begun, "what was begun is completed, and nothing else"
        disk.restart()
        assert load_recovery(disk) is None
        if effects % 7 == 0 or completed:
            assert_recovered(cluster, disk)
        effects += 1
    assert all(fates.values()), fates


def test_what_is_written_is_committed_by_the_one_voter() -> None:
    """Nothing is left for an election to decide: the first start applies it all."""
    _, disk = left_over()
    before = {one.number: one.last_index for one in look(disk).groups}
    recovery = recover(disk)
    disk.restart()
    for one in look(disk).groups:
        assert one.last_index == one.commit == before[one.number] + 1 + (one.number == 0)
        assert (one.term, one.last_term) == (recovery.term, recovery.term)
        assert one.certain_end == one.log_end


def test_what_was_written_is_not_written_again() -> None:
    _, disk = left_over()
    disk.fail_next("rename", path="cluster")
    with pytest.raises(OSError, match="injected"):
        recover(disk)
    disk.restart()
    before = {one.number: one.last_index for one in look(disk).groups}
    recover(disk)
    disk.restart()
    assert {one.number: one.last_index for one in look(disk).groups} == before


def test_a_recovery_that_is_cut_off_again_and_again_ends_once_it_is_not() -> None:
    cluster, whole = left_over()
    for seed in range(20):
        disk, rand = copy_of(whole), random.Random(seed)
        for _ in range(6):
            disk.power_off_after(rand.randrange(0, 40))
            try:
                recover(disk)
                break
            except PowerLoss:
                disk.crash(rand)
        else:
            recover(disk)
        disk.restart()
        assert not disk.exists(RECOVERY_FILE)
    assert_recovered(cluster, disk)


def test_a_disk_that_fails_is_told_and_the_command_can_be_repeated() -> None:
    cluster, disk = left_over()
    disk.fail_next("sync", path="wal-offsets")
    with pytest.raises(StorageFailed):
        recover(disk)
    disk.restart()
    assert load_recovery(disk) is not None
    recover(disk)
    disk.restart()
    assert_recovered(cluster, disk)


def test_a_look_changes_nothing_at_all() -> None:
    _, disk = left_over()
    disk.restart()
    files, effects = {name: disk.content(name) for name in disk.files()}, disk.effects
    found = look(disk)
    assert held(found, TOPIC_GROUP).log_end == 1
    assert {name: disk.content(name) for name in disk.files()} == files
    assert disk.effects == effects
