"""The leader of a group moves away under clients that write all the while, on virtual time: for how long is nobody
served? It hands over to one heir, which gets first what clients wrote behind the last change (ADR 69)."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.events import ELECTION_STARTED, MEMBERS_CHANGE, TRANSFER_STARTED, EventKind
from muster_coordinator.groups.requests import OffsetCommitAnswer
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo

from tests.replica import moving
from tests.replica.cluster import SimCluster, commit_request
from tests.replica.moving import cluster_of_six

PARTITION = 1
GROUP = GroupNo(FIRST_OFFSETS_GROUP + PARTITION)
CLIENTS = 6
PACE_US = 4_000
LOOK_US = 5_000
"""Until a client that knows no leader looks again."""
HAND_OVER_MS_MAX = 300
"""What a hand-over takes: a few round trips and syncs. The shortest election timeout is 1,000 ms."""
FAIL_OVER_MS_MAX = 1_000
"""Where somebody dies as well: a broken link that is noticed, an election, and one that failed before it."""


class Writers:
    """Clients that commit one after the other, each in its own pace, from now until `pauses_ms` is asked."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.answered_us = [cluster.world.now_us]
        self.ended = False
        self.number = 0
        for client in range(CLIENTS):
            self._again(client)

    def _again(self, client: int) -> None:
        cluster, world = self.cluster, self.cluster.world
        if self.ended:
            return
        leader = cluster.leader_of(GROUP)
        if leader is None:
            world.at(world.now_us + LOOK_US, lambda: self._again(client))
            return
        self.number += 1
        asked = commit_request(f"group-{client}", self.number)

        def answered(answer: object) -> None:
            if isinstance(answer, OffsetCommitAnswer) and answer.topics[0][1][0][1] == Code.NONE:
                self.answered_us.append(world.now_us)
            world.at(world.now_us + PACE_US + client * 100, lambda: self._again(client))

        # One whose broker dies hears nothing more; the others go on.
        cluster.nodes[leader].group_request(PARTITION, asked, cluster.context(leader), answered)

    def longest_ms(self) -> float:
        """The longest time without any answer, up to now."""
        self.ended = True
        times = [*self.answered_us, self.cluster.world.now_us]
        return max(two - one for one, two in pairwise(times)) / 1_000


class Away:
    """The group's leader is moved away, with `keep` of the others staying, and clients begin to write once the first
    of the new members learns the log."""

    def __init__(self, cluster: SimCluster, keep: int) -> None:
        self.cluster = cluster
        self.leader = cluster.wait_leader(GROUP)
        here = moving.partition(cluster, group=GROUP).voters
        free = [broker for broker in cluster.nodes if broker not in here]
        self.voters = (*free[: 3 - keep], *[broker for broker in here if broker != self.leader][:keep])
        self._before = {broker: len(heard) for broker, heard in cluster.events.items()}
        moving.move(cluster, *self.voters, group=GROUP)
        cluster.world.run_until("the first step", lambda: self.told(MEMBERS_CHANGE), 10_000)
        self.writers = Writers(cluster)

    def told(self, kind: EventKind) -> list[Mapping[str, object]]:
        """Of this group, since it was to be moved."""
        since = [event for broker, heard in self.cluster.events.items() for event in heard[self._before[broker] :]]
        return [event.fields for event in since if event.kind is kind and event.fields["raft_group"] == GROUP]

    def await_voters_change(self) -> None:
        self.cluster.world.run_until("the change", lambda: not self.told(MEMBERS_CHANGE)[-1]["learners"], 10_000)

    def await_heir(self) -> int:
        told = self.cluster.world.run_until("an heir", lambda: self.told(TRANSFER_STARTED), 10_000)
        return int(told[0]["target"])

    def kill(self, broker: int) -> None:
        """... and be served again, and start it again."""
        self.cluster.kill(broker)
        self.cluster.world.run_for(2_500)
        pause_ms = self.writers.longest_ms()
        self.cluster.restart(broker)
        self.cluster.wait_ready()
        moving.await_moved(self.cluster, *self.voters, group=GROUP)
        assert pause_ms <= FAIL_OVER_MS_MAX


@pytest.mark.parametrize("keep", [2, 1])
def test_a_leader_that_is_moved_away_hands_over_to_one_heir_while_clients_write(keep: int) -> None:
    cluster = cluster_of_six(seed=keep)
    for _ in range(3):
        away = Away(cluster, keep)
        heir = away.await_heir()
        cluster.world.run_until("it leads", lambda heir=heir: cluster.leader_of(GROUP) == heir, 5_000)
        cluster.world.run_for(100)
        assert len(away.writers.answered_us) > 100, "they wrote all the time"
        assert away.writers.longest_ms() <= HAND_OVER_MS_MAX
        moving.await_moved(cluster, *away.voters, group=GROUP)
        assert len(away.told(TRANSFER_STARTED)) == 1
        assert len(away.told(ELECTION_STARTED)) == 1, "nobody else campaigned"


@pytest.mark.parametrize("delay_ms", [0, 3])
def test_whoever_dies_at_the_hand_over_the_next_election_comes_soon(delay_ms: int) -> None:
    """Who leaves, and then in the next move the heir: at once, or when it campaigns already."""
    cluster = cluster_of_six(seed=5)
    for heir_dies in (False, True):
        away = Away(cluster, keep=2)
        heir = away.await_heir()
        cluster.world.run_for(delay_ms)
        away.kill(heir if heir_dies else away.leader)


def test_a_leader_that_dies_while_the_voters_change_is_followed_soon() -> None:
    """At any moment of it: neither half of a joint configuration may be one vote short for an election timeout."""
    cluster = cluster_of_six(seed=9)
    for delay_ms in (0, 2, 5):
        away = Away(cluster, keep=2)
        away.await_voters_change()
        cluster.world.run_for(delay_ms)
        away.kill(away.leader)
