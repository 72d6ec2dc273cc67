"""The configuration of a group through checkpoints, restarts and installs of real `Node`s, with members that change."""

import copy
import random
from typing import Any

import pytest
from muster_coordinator.errors import Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.members import Members, Placed
from muster_coordinator.raft.messages import HardState, Refused
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.folders import checkpoint_folder
from muster_coordinator.replica.group_manager import OLDER_STATE
from muster_coordinator.replica.node import Node
from muster_coordinator.replica.snapshots import group_making
from muster_coordinator.replica.snapshots.group_making import NO_META, Recovery
from muster_coordinator.storage.checkpoint import CheckpointMeta, checkpoint_files, open_checkpoint
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveredGroup

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_install_races import before_install, starts
from tests.replica.snapshots.test_recovery import FREQUENT, TINY_WAL, behind, commit_many
from tests.sim.loop import Latency, World

GROUP = GroupNo(1)


def change(cluster: SimCluster, voters: tuple[int, ...]) -> int:
    """Index of the entry that brought this configuration, which is committed."""
    group = cluster.nodes[cluster.wait_leader(1)].host.groups[GROUP]
    index = group.core.change_members(voters)
    assert not isinstance(index, Refused)
    cluster.nodes[cluster.wait_leader(1)].host.touch(group)
    cluster.world.run_until("changed", lambda: group.core.commit >= index, 5_000)
    return index


def out_and_in(cluster: SimCluster, broker: int) -> tuple[Config, int]:
    """The broker leaves the group and comes back, last in order."""
    others = tuple(one for one in (0, 1, 2) if one != broker)
    change(cluster, others)
    return Config((*others, broker)), change(cluster, (*others, broker))


def checkpoints(cluster: SimCluster, broker: int) -> list[CheckpointMeta]:
    disk = cluster.disks[broker]
    found = []
    for path in checkpoint_files(disk, checkpoint_folder(GROUP)):
        file = open_checkpoint(disk, path)
        found.append(file.meta)
        file.close()
    return found


def in_wal(node: Node) -> RecoveredGroup:
    return node.host.groups[GROUP].wal_writer.wal.groups()[GROUP]


def advance(cluster: SimCluster, index: int, done: int) -> None:
    """Commits until every replica's newest checkpoint lies behind `index`, and its WAL has let go of that entry."""
    for first in range(done, done + 4_000, 100):
        commit_many(cluster, 0, first, 100)
        groups = [node.host.groups[GROUP] for node in cluster.nodes.values()]
        if all(one.wal_writer.wal.first_index(GROUP) > index for one in groups):
            return
    raise AssertionError("the WAL keeps the entry")


def test_a_restart_behind_the_entry_that_brought_it_finds_the_configuration() -> None:
    cluster = SimCluster(World(31), **{**TINY_WAL, **FREQUENT})
    cluster.start()
    commit_many(cluster, 0, 0, 100)
    away = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
    config, index = out_and_in(cluster, away)
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    assert {node.host.groups[GROUP].core.config for node in cluster.nodes.values()} == {config}, "from the entry"
    advance(cluster, index, 100)
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        known, core = in_wal(node := cluster.restart(broker)), node.host.groups[GROUP].core
        assert known.configs == (Placed(known.checkpoint[0], config),)
        assert (core.config, core.may_change) == (config, True)
        assert {meta.config for meta in checkpoints(cluster, broker)} == {config}
    cluster.wait_ready()
    cluster.converge()


def late_and_installed(seed: int) -> tuple[SimCluster, int, Config]:
    """One replica is down, and the others' logs begin after entries that took it out of the group and in again."""
    cluster, late = behind(seed)
    config, index = out_and_in(cluster, late)
    advance(cluster, index, 3_000)
    return cluster, late, config


def test_an_install_brings_the_configuration_and_a_restart_finds_it() -> None:
    cluster, late, config = late_and_installed(32)
    node = cluster.restart(late)
    assert in_wal(node).configs == ()
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    cluster.wait_ready()
    cluster.converge()
    assert node.host.groups[GROUP].core.config == config
    cluster.kill(late)
    again = cluster.restart(late)
    assert again.host.groups[GROUP].core.config == config
    assert Placed(in_wal(again).checkpoint[0], config) in in_wal(again).configs
    cluster.wait_ready()
    cluster.converge()


def test_power_lost_at_any_effect_of_an_install_leaves_the_old_configuration_or_the_new_one() -> None:
    cluster, late, config = late_and_installed(33)
    disk = cluster.disks[late]
    node = cluster.restart(late)
    before = node.host.groups[GROUP].core.config
    assert before != config
    rand, found = random.Random(33), []

    def check(operation: str, path: str, size: int) -> None:
        if operation == "pread" or not any(name.startswith(f"incoming/{GROUP}/") for name in disk.files()):
            return
        torn = copy.deepcopy(disk)
        torn.cost = None
        torn.crash(rand)
        for left in (disk.durable_copy(), torn):
            started = starts(left, late)
            core = started.host.groups[GROUP].core
            installed = core.log.checkpoint[0] > 800
            assert core.config == (config if installed else before)
            found.append(installed)

    cluster.loops[late].latency["wal-offsets"] = Latency(500_000, 500_000)
    disk.cost = check
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    disk.cost = None
    assert set(found) == {False, True}
    assert len(found) > 40
    assert starts(disk.durable_copy(), late).host.groups[GROUP].core.config == config


def test_a_damaged_newest_checkpoint_falls_back_to_one_with_its_own_configuration() -> None:
    """The configuration of the older one is another: entries behind it bring the present one."""
    cluster = SimCluster(World(34), **{**TINY_WAL, **FREQUENT})
    cluster.start()
    leader = cluster.wait_leader(1)
    group, made = cluster.nodes[leader].host.groups[GROUP], cluster.nodes[leader].group_manager.checkpoints
    commit_many(cluster, 0, 0, 20)
    checkpoint_now(cluster, leader)
    first = made.newest(GROUP)
    away = next(broker for broker in cluster.brokers if broker != leader)
    config, index = out_and_in(cluster, away)
    checkpoint_now(cluster, leader)
    assert (first and first[0].config, checkpoints(cluster, leader)[0].config) == (None, config)
    assert group.core.log.checkpoint[0] >= index
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    disk = cluster.disks[leader]
    disk.damage(checkpoint_files(disk, checkpoint_folder(GROUP))[0], 70, b"\xee\xee")
    told: list[str] = []
    cluster.notice = lambda what, details, error: told.append(what)
    node = cluster.restart(leader)
    assert told == [OLDER_STATE]
    core = node.host.groups[GROUP].core
    assert core.log.checkpoint[0] < index
    assert core.config == config
    assert core.config_at(core.applied) == Config((0, 1, 2))
    for broker in cluster.brokers:
        if broker != leader:
            cluster.restart(broker)
    cluster.wait_ready()
    cluster.converge()


def checkpoint_now(cluster: SimCluster, broker: int) -> None:
    made: list[bool] = []
    cluster.nodes[broker].group_manager.checkpoints.want(GROUP, lambda: made.append(True))
    cluster.world.run_until("a checkpoint", lambda: bool(made), 5_000)


def test_who_came_later_makes_no_checkpoint_before_it_knows_who_the_members_were() -> None:
    cluster = SimCluster(World(35), **{**TINY_WAL, **FREQUENT})
    cluster.start()
    commit_many(cluster, 0, 0, 20)
    late = next(broker for broker in cluster.brokers if broker != cluster.wait_leader(1))
    core = cluster.nodes[late].host.groups[GROUP].core
    named = core.applied + 900
    core.members = Members((Placed(0, Config(())), Placed(named, core.config)))
    commit_many(cluster, 0, 20, 600)
    assert not checkpoints(cluster, late)
    assert all(checkpoints(cluster, broker) for broker in cluster.brokers if broker != late), "it would have been due"
    commit_many(cluster, 0, 620, 600)
    cluster.world.run_until("a checkpoint", lambda: bool(checkpoints(cluster, late)), 10_000)
    assert {(meta.index >= named, meta.config) for meta in checkpoints(cluster, late)} == {(True, core.config)}


def test_where_members_are_fixed_an_offer_with_a_configuration_is_not_taken() -> None:
    cluster, late, config = late_and_installed(36)
    node = cluster.restart(late)
    node.host.groups[GROUP].core.may_change = False
    cluster.world.run_for(3_000)
    assert not node.formed.installs.installed[GROUP]
    node.host.groups[GROUP].core.may_change = True
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    cluster.wait_ready()
    assert node.host.groups[GROUP].core.config == config


def test_a_group_that_never_changed_writes_as_ever() -> None:
    cluster, late = behind(37)
    node = cluster.restart(late)
    offers: list[Any] = []
    before_install(node, offers.append)
    cluster.world.run_until("installed", lambda: node.formed.installs.installed[GROUP], 10_000)
    cluster.wait_ready()
    assert [offer.config for offer in offers] == [None]
    for broker in list(cluster.nodes):
        assert {meta.config for meta in checkpoints(cluster, broker)} == {None}
        cluster.kill(broker)
        assert in_wal(cluster.restart(broker)).configs == ()
        cluster.wait_ready()


ONE, TWO, FIRST = Config((1, 2)), Config((1, 2, 3)), (7, 8, 9)


def configs(known: tuple[Placed, ...], meta: CheckpointMeta, *, whole: bool = True) -> tuple[Placed, ...]:
    """What the core is given, from the configurations of the WAL and a checkpoint."""
    group = RecoveredGroup(HardState(1, -1, 0), 1, 0, 40, NO_RECOVERY_POINT, (20, 1), configs=known)
    return group_making._configs(GROUP, group, Recovery(meta, None, NO_RECOVERY_POINT, whole), Config(FIRST))


def test_what_the_core_is_given_begins_where_the_state_does() -> None:
    at = CheckpointMeta(GROUP, 20, 1)
    none, with_one = at, at._replace(config=ONE)
    assert configs((), none) == (Placed(0, Config(FIRST)),)
    assert configs((Placed(30, TWO),), none) == (Placed(0, Config(FIRST)), Placed(30, TWO))
    assert configs((Placed(5, TWO), Placed(20, ONE), Placed(30, TWO)), with_one) == (Placed(20, ONE), Placed(30, TWO))
    older = CheckpointMeta(GROUP, 4, 1)
    assert configs((Placed(5, TWO), Placed(20, TWO)), older) == (
        Placed(0, Config(FIRST)),
        Placed(5, TWO),
        Placed(20, TWO),
    ), "the log goes back to an older checkpoint"
    assert configs((Placed(20, TWO),), older._replace(config=ONE)) == (Placed(4, ONE), Placed(20, TWO))
    assert configs((Placed(20, ONE), Placed(30, TWO)), none, whole=False) == (Placed(20, ONE), Placed(30, TWO)), (
        "without a state the WAL alone knows it"
    )
    assert configs((Placed(2, ONE),), NO_META) == (Placed(0, Config(FIRST)), Placed(2, ONE))


@pytest.mark.parametrize("config", [None, TWO])
def test_a_wal_and_a_checkpoint_that_contradict_each_other_are_corruption(config: Config | None) -> None:
    with pytest.raises(Corruption, match="members at 20"):
        configs((Placed(20, ONE),), CheckpointMeta(GROUP, 20, 1, config=config))
