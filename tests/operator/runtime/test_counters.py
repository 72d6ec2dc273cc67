"""Counters of the operator never fall while it runs, whatever becomes of the objects that they count for."""

import itertools

from prometheus_client.parser import text_string_to_metric_families

from tests.operator.fakes.bench import World, cluster, group, run
from tests.operator.runtime.test_crashes import settled, stable

Key = tuple[str, tuple[tuple[str, str], ...]]


def counters(world: World) -> dict[Key, float]:
    page = world.metrics.exposition().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if family.type in ("counter", "histogram") and not sample.name.endswith("_created")
    }


def test_no_counter_falls_through_the_lives_of_objects() -> None:
    async def scene() -> list[dict[Key, float]]:
        world = World()
        seen = []
        for _ in range(2):  # made, grown, shrunk, broken, deleted, and again under the same names
            world.fake.put(cluster())
            world.fake.put(group())
            world.kafka.groups["g"] = stable(3)
            if world.core is None:
                world.start()
            await settled(world)
            seen.append(counters(world))
            for change in ({"replicas": 1}, {"replicas": 4}, {"template": {"image": "consumer:2"}}):
                world.fake.edit("ConsumerGroup", "ns", "g", lambda one, to=change: one["spec"].update(to))
                await world.run(30_000)
                seen.append(counters(world))
            world.fake.remove("ConsumerGroup", "ns", "g")
            world.fake.remove("CoordinatorCluster", "ns", "c")
            await world.run(30_000)
            seen.append(counters(world))
        return seen

    seen = run(scene())
    assert len(seen[-1]) > 20
    for before, after in itertools.pairwise(seen):
        assert [key for key, value in before.items() if after.get(key, -1) < value] == []
