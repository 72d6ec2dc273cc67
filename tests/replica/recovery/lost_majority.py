"""A cluster on virtual time that loses a majority of its folders, and its recovery from one that is left."""

from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.quorum import Config
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.bootstrap.recovery_file import RecoveryFile
from muster_coordinator.replica.recovery.execution import execute
from muster_coordinator.replica.recovery.plan import plan
from muster_coordinator.replica.recovery.survey import GroupHeld, Survey, WalSizes, survey
from muster_coordinator.runtime.dry_disk import DryDisk

from tests.replica.cluster import SMALL, SimCluster, produce_when_room
from tests.sim.disk import SimDisk

SIZES = WalSizes(SMALL["wal_file_bytes"], SMALL["wal_bytes_max"])
TOPIC_GROUP = GroupNo(4)
EPOCH_ID = b"e" * 16
SURVIVOR = BrokerId(0)


def fetched(cluster: SimCluster, partition: int, among: list[int] | None = None) -> tuple[int, int]:
    leader = cluster.wait_leader(1 + partition, among=among)
    return cluster.fetch(leader, partition, "g")


def produce(cluster: SimCluster, value: bytes, among: list[int] | None = None, group: int = TOPIC_GROUP) -> None:
    """One acknowledged record."""
    leader = cluster.wait_leader(group, among=among)
    codes: list[Code] = []
    log = cluster.nodes[leader].local_log(GroupNo(group))
    assert log is not None
    deadline_ms = cluster.loops[leader].monotonic_ms() + 30_000
    batch = encode_batch([(None, value)], timestamp_ms=1_700_000_000_000)
    produce_when_room(log, batch, deadline_ms, codes.append)
    cluster.world.run_until("the record is acknowledged", lambda: codes)
    assert codes == [Code.NONE]


def log_end(cluster: SimCluster, broker: int, group: int = TOPIC_GROUP) -> int:
    bounds = cluster.nodes[broker].log_bounds(GroupNo(group))
    assert bounds is not None
    return bounds[1]


def look(disk: SimDisk, broker: int = SURVIVOR) -> Survey:
    """As `muster recover` without --execute."""
    return survey(DryDisk(disk), BrokerId(broker), SIZES)


def held(found: Survey, group: int) -> GroupHeld:
    return next(one for one in found.groups if one.number == group)


def recover(disk: SimDisk, broker: int = SURVIVOR, epoch_id: bytes = EPOCH_ID) -> RecoveryFile:
    """As `muster recover --execute`, on the folder of a stopped replica."""
    found = look(disk, broker)
    planned = plan(found, epoch_id)
    assert planned.recovery is not None, planned.refusals
    execute(disk, found, planned.recovery, SIZES)
    return planned.recovery


def lose_majority(cluster: SimCluster, survivor: int = SURVIVOR) -> dict[int, SimDisk]:
    """All replicas go; the folders of all but one are lost. The lost folders, should they turn up again."""
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    old = {int(broker): cluster.disks[broker] for broker in cluster.brokers if broker != survivor}
    for broker in old:
        cluster.empty_disk(broker)
    return old


def members(cluster: SimCluster, broker: int, group: int) -> Config:
    return cluster.nodes[broker].host.groups[GroupNo(group)].core.config


def await_members(cluster: SimCluster, wanted: set[int], ms: float = 60_000) -> None:
    """Until every group has these voters and no other members, by every replica's log."""

    def all_have() -> bool:
        numbers = {number for node in cluster.nodes.values() for number in node.host.groups}
        return all(
            number in node.host.groups and has(members(cluster, broker, number))
            for broker, node in cluster.nodes.items()
            for number in numbers
        )

    def has(config: Config) -> bool:
        return set(config.voters) == wanted and config == Config(config.voters)

    try:
        cluster.world.run_until("all groups have the wanted members", all_have, ms)
    except AssertionError:
        told = {(b, g): members(cluster, b, g) for b, node in cluster.nodes.items() for g in map(int, node.host.groups)}
        held_up = [node.formed.membership.held_up for node in cluster.nodes.values() if node.formed is not None]
        raise AssertionError(f"{told}, {held_up}, {[node.not_ready() for node in cluster.nodes.values()]}") from None
