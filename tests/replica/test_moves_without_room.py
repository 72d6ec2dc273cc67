"""A partition is moved to a broker whose disk has no room for it: the move waits, everybody who has it keeps it and
serves, it is told once, and room, or another wish, is all it takes (ADR 46). If there is no room for long, it is
cancelled, and leaves nothing behind."""

import re
from collections.abc import Mapping

import pytest
from muster_coordinator.events import COPY_GOES_ON, COPY_WAITS, MOVE_CANCELLED, Event
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import MIB
from muster_coordinator.replica import limits
from muster_coordinator.replica.maintenance.full_targets import NEVER_MS, moves_to
from muster_coordinator.replica.maintenance.weights import COUNTS_MS, REPORT_MS
from muster_coordinator.replica.snapshots.install import GIVEN_UP

from tests.replica.cluster import SimCluster
from tests.replica.moving import suspensions_only
from tests.replica.test_moves import GROUP, await_moved, move, partition, traces
from tests.replica.test_throttled_moves import BY_ENTRIES, BY_FILES, EACH_WAY, RATE, SIZE, Data, full, limit, produce

LOW, GOOD = 4 * MIB, 6 * MIB
TARGET = 7


def crowded(data: Data, seed: int = 1, *, room_timeout_ms: int = 60_000) -> SimCluster:
    more = {"disk_low_bytes": LOW, "disk_good_bytes": GOOD, "room_timeout_ms": room_timeout_ms}
    cluster = full(data._replace(settings=data.settings | more), seed)
    cluster.notice = installs_given_up_only
    return cluster


def installs_given_up_only(what: str, details: Mapping[str, object], error: BaseException | None) -> None:
    if what != GIVEN_UP:
        suspensions_only(what, details, error)


def leave(cluster: SimCluster, free_bytes: int | None) -> None:
    disk = cluster.disks[TARGET]
    disk.capacity_bytes = None if free_bytes is None else disk._used() + free_bytes


def told(cluster: SimCluster) -> list[str]:
    """What the target has told of its copies, in order."""
    events: list[Event] = cluster.events[TARGET]
    return [event.kind.name for event in events if event.kind in (COPY_WAITS, COPY_GOES_ON, MOVE_CANCELLED)]


def await_waiting(cluster: SimCluster) -> None:
    cluster.world.run_until("it waits for room", cluster.nodes[TARGET].copies_without_room, 30_000)


def check_waiting(cluster: SimCluster) -> None:
    """For long: the move is under way, its origin serves, the target is as ready as before, and has room left."""
    cluster.world.run_for(20_000)
    [waiting] = cluster.nodes[TARGET].copies_without_room()
    assert (waiting.group, waiting.partition) == (GROUP, "t-0")
    assert waiting.reason
    assert partition(cluster).moves
    assert told(cluster) == [COPY_WAITS.name]
    produce(cluster, 1_000, 5)
    assert not cluster.nodes[TARGET].not_ready()
    node = cluster.nodes[TARGET]
    assert not node.host.disk_full
    assert TARGET not in cluster.nodes[cluster.wait_leader(GROUP)].host.groups[GROUP].core.config.voters


@EACH_WAY
def test_a_move_to_a_disk_without_room_waits_and_goes_on_when_there_is_some(data: Data) -> None:
    cluster = crowded(data)
    leave(cluster, LOW + SIZE // 2 if data is BY_FILES else LOW - 1)
    cluster.world.run_for(2_000)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    check_waiting(cluster)
    assert cluster.nodes[TARGET].formed.installs.bytes_received == 0, "not a byte, if it would not fit"
    leave(cluster, None)
    await_moved(cluster, 0, 1, TARGET)
    assert told(cluster) == [COPY_WAITS.name, COPY_GOES_ON.name]
    assert cluster.nodes[TARGET].copies_without_room() == ()


def test_a_disk_that_fills_up_meanwhile_holds_the_move_before_it_is_full() -> None:
    """By entries, which nobody counts before: what is left of a low disk is for the groups that vote there."""
    cluster = crowded(BY_ENTRIES)
    limit(cluster, TARGET, {}, follower=RATE)
    leave(cluster, LOW + 2 * MIB)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    check_waiting(cluster)
    assert cluster.disks[TARGET].free_bytes() > LOW // limits.DISK_FULL_SHARE
    leave(cluster, None)
    await_moved(cluster, 0, 1, TARGET)


@EACH_WAY
def test_a_move_that_waits_for_room_can_be_taken_back(data: Data) -> None:
    cluster = crowded(data)
    leave(cluster, LOW + SIZE // 2 if data is BY_FILES else LOW - 1)
    cluster.world.run_for(2_000)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    move(cluster)
    await_moved(cluster, 0, 1, 2)
    assert cluster.nodes[TARGET].copies_without_room() == ()
    assert traces(cluster, TARGET) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_others_fill_while_files_arrive_holds_the_move_and_keeps_nothing_half_done(seed: int) -> None:
    cluster = crowded(BY_FILES, seed)
    limit(cluster, TARGET, {}, follower=RATE)
    move(cluster, 0, 1, TARGET)
    installs = cluster.nodes[TARGET].formed.installs
    cluster.world.run_until("files arrive", lambda: installs.bytes_received > MIB, 30_000)
    leave(cluster, 64 * 1024)
    await_waiting(cluster)
    cluster.world.run_for(15_000)
    assert partition(cluster).moves
    assert installs.installed[GROUP] == 0
    produce(cluster, 1_000, 5)
    leave(cluster, None)
    await_moved(cluster, 0, 1, TARGET)
    assert cluster.nodes[TARGET].copies_without_room() == ()


@EACH_WAY
def test_a_move_that_gets_no_room_in_time_is_cancelled_and_leaves_nothing(data: Data) -> None:
    cluster = crowded(data, room_timeout_ms=20_000)
    leave(cluster, LOW + SIZE // 2 if data is BY_FILES else LOW - 1)
    cluster.world.run_for(2_000)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    cluster.world.run_for(15_000)
    assert partition(cluster).voters == (0, 1, TARGET)
    await_moved(cluster, 0, 1, 2)
    assert told(cluster) == [COPY_WAITS.name, MOVE_CANCELLED.name]
    [cancelled] = [event for event in cluster.events[TARGET] if event.kind is MOVE_CANCELLED]
    assert dict(cancelled.fields)["voters"] == f"0,1,{TARGET}"
    assert cluster.nodes[TARGET].copies_without_room() == ()
    assert traces(cluster, TARGET) == []
    produce(cluster, 1_000, 5)
    leave(cluster, None)
    cluster.world.run_for(30_000)
    assert partition(cluster).voters == (0, 1, 2), "room that comes later is too late"
    move(cluster, 0, 1, TARGET)
    await_moved(cluster, 0, 1, TARGET)


def test_the_time_is_that_of_one_move_and_another_wish_has_its_own() -> None:
    cluster = crowded(BY_FILES, room_timeout_ms=20_000)
    leave(cluster, LOW + SIZE // 2)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    cluster.world.run_for(15_000)
    move(cluster, 0, 2, TARGET)
    cluster.world.run_for(15_000)
    assert partition(cluster).voters == (0, 2, TARGET)
    await_moved(cluster, 0, 1, 2)
    assert told(cluster).count(MOVE_CANCELLED.name) == 1


def test_without_a_bound_it_waits_as_long_as_it_takes() -> None:
    cluster = crowded(BY_FILES, room_timeout_ms=NEVER_MS)
    leave(cluster, LOW + SIZE // 2)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    cluster.world.run_for(120_000)
    assert partition(cluster).voters == (0, 1, TARGET)
    leave(cluster, None)
    await_moved(cluster, 0, 1, TARGET)


def test_who_had_it_before_never_cancels_its_move() -> None:
    """It may be there again with a new folder: nobody else could be what it is."""
    cluster = crowded(BY_FILES)
    leave(cluster, LOW + SIZE // 2)
    move(cluster, 0, 1, TARGET)
    await_waiting(cluster)
    image = cluster.nodes[0].image()
    assert image is not None
    assert {broker: set(moves_to(image, BrokerId(broker))) for broker in (0, 1, 2, TARGET, 8)} == {
        0: set(), 1: set(), 2: set(), TARGET: {GROUP}, 8: set(),
    }  # fmt: skip


def test_what_is_known_of_room_before_a_move_is_asked_for() -> None:
    """By the controller's leader, from what the partition's leader and the target have told; who is silent is not
    known, and nobody is refused for that."""
    cluster = crowded(BY_FILES)
    leave(cluster, LOW + SIZE // 2)
    controller = cluster.nodes[cluster.wait_leader(0)]
    group, target = GroupNo(GROUP), BrokerId(TARGET)
    assert controller.lack_of_room(group, target) == "", "not told yet"
    cluster.world.run_for(2 * REPORT_MS)
    said = controller.lack_of_room(group, target)
    assert said.startswith(f"broker {TARGET} has room for ")
    room, takes = map(int, re.findall(r"for (\d+) bytes before its disk is low, and it takes (\d+)$", said)[0])
    assert room <= SIZE // 2 < takes
    assert controller.lack_of_room(group, BrokerId(8)) == ""
    others = [node for node in cluster.nodes.values() if node is not controller]
    assert {node.lack_of_room(group, target) for node in others} == {""}
    cluster.kill(TARGET)
    cluster.world.run_for(COUNTS_MS + 1_000)
    assert controller.lack_of_room(group, target) == "", "that is long ago"
    cluster.restart(TARGET)
    cluster.wait_ready()
    leave(cluster, LOW - 1)
    cluster.world.run_for(2 * REPORT_MS)
    low = f"the disk of broker {TARGET} is low"
    assert cluster.nodes[cluster.wait_leader(0)].lack_of_room(group, target) == low
    assert {node.lack_of_room(group, target) for node in cluster.nodes.values()} <= {low, ""}, "who does not lead it"
