"""A hand-over that comes to nothing must not leave anybody waiting."""

from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo

from tests.replica.cluster import SimCluster, commit_request, fetch_request, fetched
from tests.sim.loop import World

GROUP = GroupNo(1)


def with_a_target_that_hears_nothing(seed: int) -> tuple[SimCluster, int]:
    """The leader hands over to a peer that is cut off in silence."""
    cluster = SimCluster(World(seed))
    cluster.start()
    leader = cluster.wait_leader(1)
    target = next(broker for broker in cluster.nodes if broker != leader)
    for other in cluster.nodes:
        if other != target:
            cluster.net.cut(other, target)
    assert cluster.nodes[leader].transfer(GROUP, BrokerId(target))
    return cluster, leader


def test_what_was_parked_is_served_as_soon_as_the_transfer_is_given_up() -> None:
    cluster, leader = with_a_target_that_hears_nothing(3)
    cluster.world.run_for(500)
    answers = cluster.ask_later(leader, 0, commit_request("g", 7))
    cluster.world.run_until("an answer", lambda: answers, 1_100)
    assert answers[0].topics[0][1][0][1] == Code.NONE


def test_a_stream_of_requests_does_not_keep_the_parking_full_for_ever() -> None:
    cluster, leader = with_a_target_that_hears_nothing(4)
    answers = []
    for n in range(60):
        answers.append(cluster.ask_later(leader, 0, commit_request("g", n)))
        cluster.world.run_for(100)
    reads = cluster.ask_later(leader, 0, fetch_request("g"))
    cluster.world.run_until("answers", lambda: reads and all(answers), 3_000)
    assert [a[0].topics[0][1][0][1] for a in answers[-20:]] == [Code.NONE] * 20
    assert fetched(reads[0]) == (Code.NONE, 59)


def test_what_was_parked_is_served_when_the_target_dies() -> None:
    """The transfer is given up as soon as the link breaks. Requests that were parked by then kept all later ones parked
    as well, which time-outs answered, until something else moved the group."""
    cluster = SimCluster(World(5))
    cluster.start()
    leader = cluster.wait_leader(1)
    target = next(broker for broker in cluster.nodes if broker != leader)
    assert cluster.nodes[leader].transfer(GROUP, BrokerId(target))
    first = cluster.ask_later(leader, 0, commit_request("g", 7))
    cluster.kill(target)
    cluster.world.run_until("an answer", lambda: first, 1_100)
    second = cluster.ask_later(leader, 0, commit_request("g", 8))
    cluster.world.run_until("another", lambda: second, 1_100)
    assert [answers[0].topics[0][1][0][1] for answers in (first, second)] == [Code.NONE, Code.NONE]
    assert cluster.leader_of(1) == leader
