"""Topics that were placed (ADR 44), in whole clusters on virtual time: their groups are where they were placed, are led
by whom that says, and live as long as a majority of these brokers; racks are told, and told later."""

from dataclasses import replace

from muster_coordinator.controller.commands import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    FinalizeFeatures,
    MovePartition,
)
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo, member_no
from muster_coordinator.raft.quorum import Config
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS
from muster_coordinator.replica.settings import NodeSettings

from tests.replica.cluster import SimCluster, produce_when_room
from tests.replica.serving_cluster import GROUPS, formed
from tests.replica.test_replacement import lose
from tests.replica.test_replacement import replace as replace_folder
from tests.sim.loop import World

ID = b"p" * 16
FIRST = len(GROUPS)
"""The Raft group of the placed topic's first partition."""


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def made(cluster: SimCluster, *placed: tuple[BrokerId, ...]) -> list[GroupNo]:
    """A topic with these partitions; their groups."""
    command = CreateTopic(name="p", topic_id=ID, partitions=len(placed), configs=(), placed=placed)
    result = cluster.submit(cluster.wait_leader(0), command)
    assert result.error == Code.NONE, result
    return [GroupNo(FIRST + at) for at in range(len(placed))]


def of_five(**settings: int) -> SimCluster:
    cluster = formed(**settings)
    for broker in (3, 4):
        cluster.add(broker)
    cluster.wait_ready()
    return cluster


def holders(cluster: SimCluster, group: GroupNo) -> set[int]:
    return {broker for broker, node in cluster.nodes.items() if group in node.host.groups}


def traces(cluster: SimCluster, group: GroupNo) -> set[int]:
    """Brokers that have files of the group."""
    folders = tuple(f"{kind}/{group}/" for kind in (SEGMENTS, CHECKPOINTS))
    return {broker for broker, disk in cluster.disks.items() if any(name.startswith(folders) for name in disk.files())}


def led(cluster: SimCluster, group: GroupNo) -> int | None:
    """Its leader as every broker that is up knows it; None while they do not agree, or it does not serve."""
    known = {node.leadership(group).leader for node in cluster.nodes.values()}
    serving = {b for b, node in cluster.nodes.items() if group in node.host.groups and node.host.groups[group].serves}
    return int(known.pop() or 0) if len(known) == 1 and known == serving else None


def write(cluster: SimCluster, group: GroupNo, among: list[int] | None = None) -> int:
    """One record through the leader; the offset after it."""
    leader = cluster.wait_leader(group, ms=30_000, among=among)
    log = cluster.nodes[leader].local_log(group)
    assert log is not None
    codes: list[Code] = []
    batch = encode_batch([(b"k", b"v" * 50)], timestamp_ms=1_700_000_000_000)
    produce_when_room(log, batch, cluster.loops[leader].monotonic_ms() + 5_000, codes.append)
    cluster.world.run_until("an answer", lambda: codes, 20_000)
    assert codes == [Code.NONE]
    return cluster.nodes[leader].group_manager.states[group].next_offset


def test_groups_are_where_they_were_placed_and_led_by_the_first_whoever_asks() -> None:
    cluster = of_five()
    groups = made(cluster, ids(4, 0, 3), ids(3), ids(2, 4, 0, 1, 3), ids(1))
    where = ({0, 3, 4}, {3}, {0, 1, 2, 3, 4}, {1})
    cluster.world.run_until("all are made", lambda: [holders(cluster, group) for group in groups] == [*where], 10_000)
    cluster.world.run_until("all are led", lambda: [led(cluster, group) for group in groups] == [4, 3, 2, 1], 10_000)
    assert all(cluster.nodes[2].host.groups[groups[2]].core.term == 1 for _ in groups), "by the first election"
    for group in groups:
        write(cluster, group)
    cluster.world.run_for(5_000)
    assert [traces(cluster, group) for group in groups] == [*where]
    assert all(not node.not_ready() for node in cluster.nodes.values())


def test_they_are_found_again_after_a_restart_of_everybody() -> None:
    cluster = of_five()
    groups = made(cluster, ids(4, 0, 3), ids(3))
    ends = [write(cluster, group) for group in groups]
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    assert [holders(cluster, group) for group in groups] == [{0, 3, 4}, {3}]
    assert [write(cluster, group) for group in groups] == [end + 1 for end in ends]


def test_who_was_away_makes_its_group_when_it_is_back_and_only_if_it_is_placed_there() -> None:
    cluster = of_five()
    for broker in (1, 4):
        cluster.kill(broker)
    (group,) = made(cluster, ids(4, 0, 3))
    write(cluster, group, among=[0, 3])
    for broker in (1, 4):
        cluster.restart(broker)
    cluster.wait_ready()
    cluster.world.run_until("it is made", lambda: holders(cluster, group) == {0, 3, 4}, 10_000)
    cluster.world.run_for(2_000)
    assert traces(cluster, group) == {0, 3, 4}
    cluster.kill(0)
    write(cluster, group, among=[3, 4])


def test_a_majority_of_the_placed_brokers_is_enough_and_needed() -> None:
    cluster = of_five()
    groups = made(cluster, ids(4, 0, 3), ids(3))
    for group in groups:
        write(cluster, group)
    for broker in (0, 1):
        cluster.kill(broker)
    assert [write(cluster, group, among=[2, 3, 4]) for group in groups] == [2, 2]
    cluster.restart(0)
    cluster.restart(1)
    cluster.wait_ready()
    cluster.kill(3)
    write(cluster, groups[0], among=[0, 4])
    cluster.world.run_for(10_000)
    assert all(node.leadership(groups[1]).leader in (3, None) for node in cluster.nodes.values())
    assert cluster.leader_of(groups[1]) is None, "nobody else can stand in for the only replica"
    cluster.restart(3)
    cluster.wait_ready()
    assert write(cluster, groups[1]) == 3, "and nothing is lost with the process alone"


def test_of_a_deleted_topic_nothing_stays() -> None:
    cluster = of_five()
    groups = made(cluster, ids(4, 0, 3), ids(3))
    for group in groups:
        write(cluster, group)
    cluster.kill(3)
    assert cluster.submit(cluster.wait_leader(0), DeleteTopic(topic_id=ID)).error == Code.NONE
    cluster.restart(3)
    cluster.wait_ready()
    cluster.world.run_until("all is gone", lambda: not any(holders(cluster, g) | traces(cluster, g) for g in groups))


def test_a_replaced_broker_takes_new_partitions_as_the_member_that_it_is_now() -> None:
    cluster = formed()
    gone = lose(cluster, 2)
    replace_folder(cluster, 2, gone)
    cluster.start_one(2)
    cluster.wait_ready()
    groups = made(cluster, ids(2), ids(2, 0, 1))
    for group in groups:
        write(cluster, group)
    members = (int(member_no(BrokerId(2), 1)), 0, 1)
    assert cluster.nodes[2].host.groups[groups[0]].core.config == Config(members[:1])
    assert set(cluster.nodes[0].host.groups[groups[1]].core.config.voters) == set(members)
    cluster.kill(2)
    cluster.restart(2)
    cluster.wait_ready()
    assert [write(cluster, group) for group in groups] == [2, 2]


def test_partitions_are_added_where_they_are_placed() -> None:
    cluster = of_five()
    made(cluster, ids(3))
    grown = AddPartitions(topic_id=ID, total=3, placed=(ids(4), ids(1, 3, 4)))
    assert cluster.submit(cluster.wait_leader(0), grown).error == Code.NONE
    added = [GroupNo(FIRST + 1), GroupNo(FIRST + 2)]
    cluster.world.run_until("both are led", lambda: [led(cluster, group) for group in added] == [4, 1], 10_000)
    assert [holders(cluster, group) for group in added] == [{4}, {1, 3, 4}]


def test_leadership_goes_back_to_the_first_and_to_another_one_that_is_put_first() -> None:
    cluster = of_five(takeback_ms=2_000)
    (group,) = made(cluster, ids(4, 0, 3))
    cluster.world.run_until("it is led", lambda: led(cluster, group) == 4, 10_000)
    cluster.kill(4)
    cluster.wait_leader(group, among=[0, 3])
    cluster.restart(4)
    cluster.wait_ready()
    cluster.world.run_until("it is taken back", lambda: led(cluster, group) == 4, 20_000)
    assert cluster.submit(0, MovePartition(topic_id=ID, partition=0, voters=ids(3, 0, 4))).error == Code.NONE
    cluster.world.run_until("the new first one leads", lambda: led(cluster, group) == 3, 20_000)


def test_while_a_move_brings_the_first_broker_nobody_else_is_put_in_its_place() -> None:
    cluster = of_five(takeback_ms=2_000)
    (group,) = made(cluster, ids(1, 0, 3))
    cluster.world.run_until("it is led", lambda: led(cluster, group) == 1, 10_000)
    cluster.kill(4)
    assert cluster.submit(0, MovePartition(topic_id=ID, partition=0, voters=ids(4, 0, 3))).error == Code.NONE
    cluster.world.run_for(20_000)
    assert cluster.leader_of(group) == 1
    cluster.restart(4)
    cluster.wait_ready()
    cluster.world.run_until("it has come and leads", lambda: led(cluster, group) == 4, 60_000)


# Racks.


class Racked(SimCluster):
    """Broker n is in rack `racks[n]`."""

    racks = ("a", "b", "c")

    def settings_of(self, broker: int) -> NodeSettings:
        return replace(super().settings_of(broker), rack=self.racks[broker])

    def known(self) -> list[dict[int, str]]:
        """The racks in each replica's image."""
        images = [image for node in self.nodes.values() if (image := node.image()) is not None]
        return [{int(b): broker.rack for b, broker in image.brokers.items()} for image in images]

    def await_racks(self, *racks: str) -> None:
        wanted = [dict(enumerate(racks))] * len(self.nodes)
        try:
            self.world.run_until("the racks are known", lambda: self.known() == wanted, 30_000)
        except AssertionError:
            raise AssertionError(f"{self.known()}") from None


def test_every_broker_tells_its_rack_also_one_that_joins_or_is_configured_anew() -> None:
    cluster = Racked(World(3))
    cluster.start()
    cluster.await_racks("a", "b", "c")
    cluster.racks = ("a", "b", "", "d")
    cluster.kill(2)
    cluster.restart(2)
    cluster.add(3)
    cluster.wait_ready()
    cluster.await_racks("a", "b", "", "d")


def test_a_rack_is_told_when_the_level_is_there_without_a_restart() -> None:
    cluster = Racked(World(4), feature_max=MEMBERS_LEVEL - 1)
    cluster.start()
    cluster.base = replace(cluster.base, feature_max=MEMBERS_LEVEL)
    for broker in (0, 1, 2):
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_ready()
    cluster.world.run_for(5_000)
    cluster.await_racks("", "", "")
    raised = cluster.submit(cluster.wait_leader(0), FinalizeFeatures(feature_level=MEMBERS_LEVEL))
    assert raised.error == Code.NONE, raised
    cluster.await_racks("a", "b", "c")
    starts = {broker.incarnation for node in cluster.nodes.values() for broker in node.image().brokers.values()}
    assert len(starts) == 1, "nobody was registered as another start"


def test_a_replaced_folder_is_in_the_rack_of_its_broker() -> None:
    cluster = Racked(World(5))
    cluster.start()
    cluster.await_racks("a", "b", "c")
    gone = lose(cluster, 2)
    replace_folder(cluster, 2, gone)
    cluster.await_racks("a", "b", "c")
    cluster.racks = ("a", "b", "b")
    cluster.start_one(2)
    cluster.wait_ready()
    cluster.await_racks("a", "b", "b")
