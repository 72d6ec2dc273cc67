"""What a converged fleet costs."""

import dataclasses

import pytest

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.runtime.test_crashes import settled, stable

FIVE_MINUTES_MS = 300_000


@pytest.mark.slow
def test_200_converged_groups_cost_no_write_in_five_minutes() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        for number in range(200):
            name = f"g{number}"
            world.fake.put(group(name, template=number % 20 == 0))
            world.kafka.groups[name] = dataclasses.replace(stable(0), state="Empty", partitions=())
        world.start()
        await settled(world)
        assert world.fake.writes(), "the fleet was never made"
        world.fake.calls.clear()
        asked = world.kafka.asked
        await world.run(FIVE_MINUTES_MS)
        assert world.kafka.asked > asked + 200 * 10, "nobody looked"
        return world

    assert run(scene()).fake.writes() == []


def test_a_restarted_operator_finds_nothing_to_write() -> None:
    async def scene() -> World:
        world = World()
        world.fake.put(cluster())
        world.fake.put(group())
        world.kafka.groups["g"] = stable(3)
        world.start()
        await settled(world)
        world.stop()
        world.fake.calls.clear()
        world.start()
        await settled(world)
        return world

    assert run(scene()).fake.writes() == []
