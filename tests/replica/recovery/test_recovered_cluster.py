"""A majority of the folders is lost for good, and the cluster goes on from one that is left (ADR 40)."""

from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import member_no

from tests.replica.recovery.lost_majority import (
    SURVIVOR,
    TOPIC_GROUP,
    await_members,
    fetched,
    held,
    log_end,
    look,
    lose_majority,
    produce,
    recover,
)
from tests.replica.serving_cluster import GROUPS, commit_everywhere, formed


def test_the_folder_says_what_it_lacks_and_the_cluster_goes_on_with_the_rest() -> None:
    cluster = formed()
    commit_everywhere(cluster, 41)
    for number in range(5):
        produce(cluster, b"before %d" % number)
    cluster.converge()
    cluster.world.run_for(2_000)
    cluster.kill(SURVIVOR)
    others = [1, 2]
    commit_everywhere(cluster, 42, others)
    for number in range(3):
        produce(cluster, b"after %d" % number, others)
    lose_majority(cluster)

    found = look(cluster.disks[SURVIVOR])
    topic = held(found, TOPIC_GROUP)
    assert (topic.partition, topic.log_end) == ("t-0", 5), "what was acknowledged from offset 5 on is lost"
    assert topic.certain_end is not None
    assert topic.certain_end <= 5
    assert topic.newest_ms == 1_700_000_000_000
    assert not topic.trouble

    recover(cluster.disks[SURVIVOR])
    cluster.restart(SURVIVOR)
    cluster.wait_ready([SURVIVOR])
    for group in GROUPS:
        assert cluster.wait_leader(group) == SURVIVOR
    for partition in range(3):
        assert fetched(cluster, partition) == (Code.NONE, 41)
    assert log_end(cluster, SURVIVOR) == 5
    commit_everywhere(cluster, 50)
    produce(cluster, b"alone")

    cluster.start_one(1)
    cluster.start_one(2)
    cluster.wait_ready()
    await_members(cluster, {0, member_no(1, 1), member_no(2, 1)})
    cluster.converge()
    topic_command = CreateTopic(name="later", topic_id=bytes([2]) * 16, partitions=1, configs=())
    assert cluster.submit(0, topic_command).error == Code.NONE
    cluster.kill(SURVIVOR)
    for partition in range(3):
        assert fetched(cluster, partition, [1, 2]) == (Code.NONE, 50)
    produce(cluster, b"without the survivor", [1, 2])
    assert cluster.net.wire_errors == []
