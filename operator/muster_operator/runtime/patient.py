"""`ports.Kafka` for passes: who waits for a cluster that may be silent does not count as a worker meanwhile.

Workers bound what passes ask of the API server. A question to Kafka has bounds of its own (turns, time-outs), and a
cluster that just died holds the passes of all its groups until the first time-out: they must not be all the workers.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from muster_operator.ports import Kafka
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.views import Unknown

Aside = Callable[[], AbstractContextManager[None]]


class PatientKafka:
    """See `ports.Kafka`."""

    def __init__(self, kafka: Kafka, aside: Aside) -> None:
        self._kafka = kafka
        self._aside = aside

    async def group(self, *, bootstrap: str, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown:
        with self._aside():
            return await self._kafka.group(bootstrap=bootstrap, group_id=group_id, topics=topics)

    async def remove_members(self, *, bootstrap: str, group_id: str, members: Sequence[Leaver]) -> None:
        with self._aside():
            await self._kafka.remove_members(bootstrap=bootstrap, group_id=group_id, members=members)
