"""`ports.Kafka` for passes: while a pass waits for a cluster that may not answer, it does not count as a worker.

Workers bound the load on the API server. A request to Kafka has bounds of its own (turns, time-outs), and a cluster
that just died holds the passes of all its groups until the first time-out: these must not occupy all workers.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from muster_operator.ports import Kafka
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.kafka_object import KafkaChange, TopicView, UserView
from muster_operator.world.login import Where
from muster_operator.world.views import Unknown

Aside = Callable[[], AbstractContextManager[None]]


class PatientKafka:
    """See `ports.Kafka`."""

    def __init__(self, kafka: Kafka, aside: Aside) -> None:
        self._kafka = kafka
        self._aside = aside

    async def group(self, *, bootstrap: Where, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown:
        with self._aside():
            return await self._kafka.group(bootstrap=bootstrap, group_id=group_id, topics=topics)

    async def remove_members(self, *, bootstrap: Where, group_id: str, members: Sequence[Leaver]) -> None:
        with self._aside():
            await self._kafka.remove_members(bootstrap=bootstrap, group_id=group_id, members=members)

    async def topic(self, *, where: Where, name: str) -> TopicView | Unknown | None:
        with self._aside():
            return await self._kafka.topic(where=where, name=name)

    async def user(
        self, *, where: Where, name: str, principal: str, credentials: bool, acls: bool, quotas: bool
    ) -> UserView | Unknown:
        with self._aside():
            return await self._kafka.user(
                where=where, name=name, principal=principal, credentials=credentials, acls=acls, quotas=quotas
            )

    async def change(self, *, where: Where, change: KafkaChange, password: str = "") -> None:
        with self._aside():
            await self._kafka.change(where=where, change=change, password=password)
