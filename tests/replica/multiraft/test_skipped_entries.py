"""An entry that no replica can apply is passed over by all of them, once a majority has that in its log.

The entries are those of `test_unappliable_entries`: real, and proposed below the checks that keep clients from them.
"""

from typing import Any

import pytest
from muster_coordinator.errors import Code, Corruption
from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.raft.messages import Entry, EntryKind
from muster_coordinator.replica.multiraft import host
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.skips import Skip, Skips, decode_skip, encode_skip, skip_of

from tests.replica.cluster import SimCluster, commit_request
from tests.replica.multiraft.test_unappliable_entries import GROUP, KEYLESS, propose, spoil, started, stopped
from tests.replica.snapshots.test_damaged_groups import listening, others_serve, troubles
from tests.replica.snapshots.test_recovery import segment_bytes
from tests.sim.loop import World


def held(cluster: SimCluster, broker: int, group: GroupNo = GROUP) -> RaftGroup:
    return cluster.nodes[broker].host.groups[group]


def stopped_in_front_of_more(seed: int, replicas: int = 3, **settings: Any) -> SimCluster:
    """All replicas stopped at one entry; commits stand in front of it and behind it."""
    cluster = SimCluster(World(seed), replicas=replicas, **settings)
    cluster.start()
    listening(cluster)
    leader = cluster.wait_leader(1)
    for offset in range(5):
        assert cluster.commit(leader, 0, "before", offset) == Code.NONE
    propose(cluster, GROUP, EntryKind.NORMAL, KEYLESS)
    for number in range(5):
        cluster.ask_later(leader, 0, commit_request(f"behind-{number}", 7))
    stopped(cluster, GROUP)
    cluster.world.run_for(1_000)
    return cluster


def agree(cluster: SimCluster, broker: int, group: GroupNo = GROUP, ms: float = 10_000) -> bool:
    ends: list[bool] = []
    assert held(cluster, broker, group).pass_over(ends.append)
    cluster.world.run_until("an end of the vote", lambda: ends, ms)
    return ends[0]


def restart_all(cluster: SimCluster) -> None:
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()


def whole(cluster: SimCluster, group: GroupNo = GROUP) -> None:
    cluster.world.run_until(
        "no trouble", lambda: not any(group in troubles(node) for node in cluster.nodes.values()), 30_000
    )
    cluster.wait_leader(int(group))
    cluster.converge([int(group)], 30_000)


def served_without_it(cluster: SimCluster) -> None:
    whole(cluster)
    leader = cluster.wait_leader(1)
    assert cluster.fetch(leader, 0, "before") == (Code.NONE, 4)
    for number in range(5):
        assert cluster.fetch(leader, 0, f"behind-{number}") == (Code.NONE, 7)
    assert cluster.commit(leader, 0, "after", 8) == Code.NONE
    cluster.converge([1])
    snapshots = [segment_bytes(cluster, broker, 1) for broker in cluster.nodes]
    assert all(one == snapshots[0] for one in snapshots)
    assert snapshots[0]
    assert b"no key" not in b"".join(snapshots[0])


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a_majority_passes_over_the_entry_and_everything_behind_it_counts(asked: int) -> None:
    cluster = stopped_in_front_of_more(80 + asked)
    assert agree(cluster, asked)
    assert cluster.leader_of(1) is None, "whoever had it agreed serves nothing"
    restart_all(cluster)
    served_without_it(cluster)
    restart_all(cluster)
    served_without_it(cluster)


def test_a_replica_alone_is_its_own_majority() -> None:
    cluster = stopped_in_front_of_more(83, replicas=1)
    assert agree(cluster, 0)
    restart_all(cluster)
    served_without_it(cluster)


def test_two_of_three_agree_while_the_third_is_away_and_it_follows() -> None:
    cluster = stopped_in_front_of_more(84)
    cluster.kill(2)
    assert agree(cluster, 0)
    for broker in (0, 1):
        cluster.kill(broker)
        cluster.restart(broker)
    cluster.wait_ready([0, 1])
    cluster.wait_leader(1)
    cluster.restart(2)
    cluster.wait_ready()
    served_without_it(cluster)


def test_one_of_three_agrees_on_nothing_and_goes_on_when_others_are_back() -> None:
    cluster = stopped_in_front_of_more(85)
    for broker in (1, 2):
        cluster.kill(broker)
    ends: list[bool] = []
    group = held(cluster, 0)
    assert group.pass_over(ends.append)
    assert not group.pass_over(ends.append), "it is under way"
    cluster.world.run_for(10_000)
    assert not ends
    group.give_up()
    assert ends == [False]
    assert not group.core.may_lead
    for broker in (1, 2):
        cluster.restart(broker)
    stopped(cluster, GROUP)
    cluster.world.run_for(3_000)
    assert cluster.leader_of(1) is None
    assert group.skips.names(group.stopped_at.index) is None, "nothing was proposed without a quorum's vote"
    assert agree(cluster, 0)
    restart_all(cluster)
    served_without_it(cluster)


def test_nothing_is_passed_over_while_another_replica_leads() -> None:
    """One replica alone could not apply it, and its peers go on: their leader is not unseated."""
    cluster, _ = started(86)
    leader = cluster.wait_leader(1)
    broken = next(broker for broker in cluster.nodes if broker != leader)
    spoil(cluster, broken)
    assert cluster.commit(leader, 0, "g", 5) == Code.NONE
    cluster.world.run_until("stopped", lambda: held(cluster, broken).stopped_at is not None, 5_000)
    assert not agree(cluster, broken)
    whole(cluster)
    assert cluster.fetch(cluster.wait_leader(1), 0, "g") == (Code.NONE, 5)


def test_a_replica_that_had_applied_it_loses_its_state_and_follows_the_others() -> None:
    cluster, _ = started(87)
    leader = cluster.wait_leader(1)
    assert cluster.commit(leader, 0, "before", 4) == Code.NONE
    cluster.converge()
    others = [broker for broker in cluster.nodes if broker != leader]
    for broker in others:
        spoil(cluster, broker)
    cluster.ask_later(leader, 0, commit_request("only there", 6))
    cluster.world.run_until(
        "stopped", lambda: all(held(cluster, broker).stopped_at is not None for broker in others), 5_000
    )
    assert held(cluster, leader).stopped_at is None
    index = held(cluster, others[0]).stopped_at.index
    assert held(cluster, leader).applied >= index
    captured: list[bool] = []
    cluster.nodes[leader].group_manager.checkpoints.want(GROUP, lambda: captured.append(True))
    cluster.world.run_until("a checkpoint holds it", lambda: captured, 5_000)
    assert held(cluster, leader).core.log.checkpoint[0] >= index
    cluster.kill(leader)
    assert agree(cluster, others[0], ms=20_000)
    for broker in others:
        cluster.kill(broker)
        cluster.restart(broker)
    cluster.wait_ready(others)
    assert cluster.commit(cluster.wait_leader(1), 0, "after", 8) == Code.NONE
    node = cluster.restart(leader)
    cluster.world.run_until(
        "it has noticed",
        lambda: GROUP in node.host.groups and "passed over entry" in held(cluster, leader).trouble,
        20_000,
    )
    whole(cluster)
    now = cluster.wait_leader(1)
    assert cluster.fetch(now, 0, "before") == (Code.NONE, 4)
    assert cluster.fetch(now, 0, "only there") == (Code.NONE, -1)
    assert cluster.fetch(now, 0, "after") == (Code.NONE, 8)


def test_a_vote_ends_when_an_install_that_turned_out_damaged_takes_the_state() -> None:
    """`SnapshotInstalls` loses the group's state then, whatever the operator asked for meanwhile."""
    cluster = stopped_in_front_of_more(90)
    ends: list[bool] = []
    assert held(cluster, 0).pass_over(ends.append)
    cluster.nodes[0].group_manager.lose_state(held(cluster, 0), "what was sealed is damaged")
    assert ends == [False]
    cluster.world.run_for(2_000)
    assert ends == [False], "told once"
    assert not held(cluster, 0).pass_over(ends.append), "it does not know the entry any more"
    assert agree(cluster, 1)


@pytest.mark.parametrize("seed", range(12))
def test_power_loss_at_any_time_of_the_vote_ends_in_one_state(seed: int) -> None:
    cluster = stopped_in_front_of_more(100 + seed)
    ends: list[bool] = []
    assert held(cluster, seed % 3).pass_over(ends.append)
    cluster.world.run_for(cluster.world.rand.uniform(0, 40))
    restart_all(cluster)
    cluster.world.run_for(5_000)
    if any(troubles(node) for node in cluster.nodes.values()):
        assert not (ends and ends[0]), "what was agreed stays so"
        stopped(cluster, GROUP)
        assert agree(cluster, (seed + 1) % 3)
        restart_all(cluster)
    served_without_it(cluster)


def test_no_snapshot_is_taken_between_the_entry_and_its_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint there would make its replica take the entry for applied when it comes to the SKIP."""
    cluster = stopped_in_front_of_more(88)
    assert agree(cluster, 0)
    monkeypatch.setattr(host, "APPLY_BYTES_PER_TURN_MAX", 1)
    for broker in cluster.brokers:
        cluster.kill(broker)
        cluster.restart(broker)

    def between() -> bool:
        group = cluster.nodes[0].host.groups.get(GROUP)
        return group is not None and group.applied < group.skips.until

    cluster.world.run_until("the entry is passed over, its SKIP is to come", between)
    captured: list[bool] = []
    cluster.nodes[0].group_manager.checkpoints.want(GROUP, lambda: captured.append(True))
    cluster.world.run_until("a checkpoint", lambda: captured, 5_000)
    told = listening(cluster)
    restart_all(cluster)
    served_without_it(cluster)
    assert not any("cannot apply" in line for line in told)


def test_the_controllers_log_goes_on_too() -> None:
    cluster, _ = started(89)
    propose(cluster, CONTROLLER_GROUP, EntryKind.COMMAND, b"\xff\xff of a later release")
    stopped(cluster, CONTROLLER_GROUP)
    assert agree(cluster, 0, CONTROLLER_GROUP)
    restart_all(cluster)
    whole(cluster, CONTROLLER_GROUP)
    for node in cluster.nodes.values():
        others_serve(cluster, node)


# -- one log's SKIPs


class Log:
    """The terms of a log."""

    def __init__(self, terms: dict[int, int]) -> None:
        self.terms = terms

    def term_at(self, index: int) -> int | None:
        return self.terms.get(index)


BAD = Entry(3, 10, int(EntryKind.NORMAL), b"bad")
SKIP = Entry(5, 14, int(EntryKind.SKIP), encode_skip(skip_of(BAD)))


def noted() -> tuple[Skips, Log]:
    log = Log({10: 3, 14: 5})
    skips = Skips(log)  # type: ignore[arg-type]
    skips.note(SKIP)
    return skips, log


def test_an_entry_is_left_alone_until_its_skip_is_committed_or_gone() -> None:
    skips, log = noted()
    assert skips.undecided(10, 13)
    assert not skips.undecided(10, 14)
    assert not skips.undecided(11, 13)
    log.terms[14] = 6
    assert not skips.undecided(10, 13)
    assert not skips.covers(BAD)


def test_a_skip_means_one_entry_and_no_other_of_its_index() -> None:
    for other in (BAD._replace(term=2), BAD._replace(data=b"bae"), BAD._replace(kind=int(EntryKind.COMMAND))):
        skips, _ = noted()
        assert not skips.covers(other)
    skips, _ = noted()
    assert skips.covers(BAD)
    assert skips.until == 14
    skips.reached(SKIP)


def test_a_skip_of_what_was_applied_here_is_no_small_thing() -> None:
    skips, _ = noted()
    with pytest.raises(Corruption, match="passed over entry 10"):
        skips.reached(SKIP)


@pytest.mark.parametrize("data", [b"", b"\x01", encode_skip(Skip(1, 1, bytes(32))) + b"x", b"\x02" + bytes(48)])
def test_a_skip_of_a_later_release_is_refused(data: bytes) -> None:
    with pytest.raises(Corruption, match="does not know"):
        decode_skip(data)


def test_the_largest_numbers_fit() -> None:
    largest = Skip(2**63 - 1, 2**31 - 1, b"\xff" * 32)
    assert decode_skip(encode_skip(largest)) == largest
