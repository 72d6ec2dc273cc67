"""Lag as metrics at every look, and writes of lag that share a few a second."""

import dataclasses

from muster_operator.limits import LAG_ENDS_MAX, LAG_WRITE_INTERVAL_MS, LAG_WRITES_BURST
from muster_operator.runtime.lag_history import LagHistory
from muster_operator.runtime.lag_writes import LagWrites
from muster_operator.world.group import ObservedGroup, PartitionView

from tests.operator.fakes.bench import World, group, run
from tests.operator.runtime.test_crashes import settled, stable

PLENTY = 1_000


def part(committed: int | None, end: int | None, number: int = 0) -> PartitionView:
    return PartitionView(topic="orders", partition=number, committed=committed, log_end=end)


def ages(*looks: tuple[int, list[PartitionView]]) -> list[int | None]:
    history = LagHistory()
    return [history.observe(views, at_ms, partitions_max=PLENTY) for at_ms, views in looks]


def test_caught_up_is_0_and_then_as_old_as_the_first_record_that_is_not_committed() -> None:
    assert ages(
        (0, [part(5, 5)]), (60_000, [part(5, 5)]), (70_000, [part(5, 8)]), (80_000, [part(5, 9)]),
        (90_000, [part(8, 9)]), (100_000, [part(9, 9)]),
    ) == [0, 0, 10_000, 20_000, 20_000, 0]  # fmt: skip


def test_behind_since_before_the_first_look_is_counted_from_it() -> None:
    assert ages((0, [part(5, 9)]), (30_000, [part(5, 9)]), (60_000, [part(6, 12)])) == [0, 30_000, 60_000]


def test_the_slowest_partition_counts() -> None:
    first = [part(5, 5), part(5, 5, 1)]
    assert ages((0, first), (9_000, [part(5, 9), part(5, 5, 1)]), (19_000, [part(5, 9), part(5, 6, 1)]))[-1] == 19_000


def test_what_is_not_known_is_no_number() -> None:
    assert ages((0, [part(5, None)]), (1, []), (2, [part(None, 7)])) == [None, None, None]
    assert LagHistory().observe([part(1, 2, n) for n in range(3)], 0, partitions_max=2) is None


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    assert ages((0, [part(5, 50)]), (10_000, [part(0, 3)]), (20_000, [part(0, 4)])) == [0, 0, 10_000]


def test_few_ends_are_kept_and_the_oldest_stays() -> None:
    history = LagHistory()
    for look in range(LAG_ENDS_MAX * 20):
        history.observe([part(0, look)], look * 1_000, partitions_max=PLENTY)
    assert all(len(ends) <= LAG_ENDS_MAX for ends in history._ends.values())
    last = LAG_ENDS_MAX * 20 - 1
    assert history.observe([part(0, last)], last * 1_000, partitions_max=PLENTY) == last * 1_000


def test_a_thousand_that_are_due_at_once_are_written_at_their_rate_and_in_their_order() -> None:
    """Each comes back when it was told to, up to two seconds late."""
    writes: LagWrites[int] = LagWrites()
    back = {key: (0, key) for key in range(1_000)}
    written: list[tuple[int, int]] = []
    while back:
        key, (now, _) = min(back.items(), key=lambda one: one[1])
        wait = writes.ask(key, now)
        if wait:
            back[key] = (now + wait + (key * 7_919) % 2_000, key)
        else:
            written.append((now, key))
            del back[key]
    for at_ms, _ in written:
        window = sum(1 for other, _ in written if at_ms <= other < at_ms + 10_000)
        assert window <= 10_000 // LAG_WRITE_INTERVAL_MS + LAG_WRITES_BURST
    assert written[-1][0] <= 1.2 * 1_000 * LAG_WRITE_INTERVAL_MS
    assert len(writes) == 0


def test_who_gave_up_is_not_waited_for_for_ever() -> None:
    writes: LagWrites[str] = LagWrites()
    assert [writes.ask(key, 0) for key in ("a", "b", "c")] == [0, LAG_WRITE_INTERVAL_MS, 2 * LAG_WRITE_INTERVAL_MS]
    writes.forget("b")
    assert writes.ask("c", 2 * LAG_WRITE_INTERVAL_MS) == 0
    assert writes.ask("b", 60_000) == 0


def test_the_dates_of_those_that_gave_up_go_to_who_comes_next() -> None:
    """Lag of a thousand groups that is in another band every 90 s: else nobody has a turn after the first ones."""
    writes: LagWrites[int] = LagWrites()
    every, begin_ms = range(1_000), 0
    for _ in range(5):
        waits = {key: writes.ask(key, begin_ms + 60_000) for key in every}
        assert max(waits.values()) <= len(every) * LAG_WRITE_INTERVAL_MS
        assert sum(60_000 + wait <= 90_000 for wait in waits.values()) >= 30_000 // LAG_WRITE_INTERVAL_MS
        begin_ms += 90_000
        for key in every:
            writes.forget(key)
    assert len(writes) == 0


def moved(world: World, name: str, ends: int) -> None:
    view = world.kafka.groups[name]
    assert isinstance(view, ObservedGroup)
    parts = tuple(dataclasses.replace(one, log_end=5 + ends) for one in view.partitions)
    world.kafka.groups[name] = dataclasses.replace(view, partitions=parts)


def exposed(world: World, name: str) -> dict[str, float]:
    lines = world.metrics.exposition().decode().splitlines()
    label = f'name="{name}",namespace="ns"'
    return {
        line.split("{")[0].removeprefix("muster_operator_consumer_group_"): float(line.split()[-1])
        for line in lines
        if line.startswith("muster_operator_consumer_group_lag") and label in line
    }


def test_lag_is_a_metric_at_every_look_and_absent_when_unknown_or_gone() -> None:
    async def scene() -> None:
        world = World()
        world.fake.put(group(template=False))
        world.kafka.groups["g"] = stable(3)
        world.start()
        await settled(world)
        moved(world, "g", 1_000)
        await world.run(15_000)
        found = exposed(world, "g")
        assert found["lag"] == 3_000
        assert 60 <= found["lag_seconds"] <= 120, "behind since the first look"
        assert world.fake.objects["ConsumerGroup", "ns", "g"]["status"]["lag"] == 12, "the status waits"
        kept = world.kafka.groups.pop("g")
        await world.run(15_000)
        assert exposed(world, "g") == {}
        world.kafka.groups["g"] = kept
        await world.run(15_000)
        assert exposed(world, "g")["lag"] == 3_000
        world.fake.remove("ConsumerGroup", "ns", "g")
        await world.run(5_000)
        assert exposed(world, "g") == {}

    run(scene())


def test_lag_that_moves_costs_no_write_until_it_stays_and_news_are_told_at_once() -> None:
    async def scene() -> list[int]:
        world = World()
        names = [f"g{number}" for number in range(5)]
        for name in names:
            world.fake.put(group(name, template=False))
            world.kafka.groups[name] = stable(1)
        world.start()
        await settled(world)
        counts = []

        async def counted(milliseconds: int) -> None:
            world.fake.calls.clear()
            await world.run(milliseconds)
            counts.append(len(world.fake.writes()))

        world.fake.calls.clear()
        for turn in range(6):
            for name in names:
                moved(world, name, 4 ** (3 + turn % 2 * 6))
            await world.run(30_000)
        counts.append(len(world.fake.writes()))
        for name in names:
            moved(world, name, 1)
        await counted(59_000)
        await counted(30_000)
        assert world.fake.objects["ConsumerGroup", "ns", "g0"]["status"]["lag"] == 1
        before = world.fake.objects["ConsumerGroup", "ns", "g0"]["status"]["lagTime"]
        await counted(300_000)
        view = world.kafka.groups["g0"]
        assert isinstance(view, ObservedGroup)
        world.kafka.groups["g0"] = dataclasses.replace(view, state="PreparingRebalance")
        await counted(15_000)
        assert world.fake.objects["ConsumerGroup", "ns", "g0"]["status"]["lagTime"] > before
        return counts

    assert run(scene()) == [0, 0, 5, 0, 1]
