"""Topics and users of one Kafka cluster in memory, for `FakeKafka`, with the meaning that Kafka gives them."""

import itertools
from dataclasses import replace

from muster_coordinator.controller.topic_configs import OWN
from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.world.kafka_object import (
    Acl,
    AddAcls,
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    KafkaChange,
    RemoveAcls,
    RemoveCredential,
    SetPassword,
    SetQuotas,
    SetTopicConfigs,
    TopicView,
    UserView,
)
from muster_operator.world.login import Where
from muster_operator.world.views import Unknown


class KafkaObjects:
    """`changes`: what was asked to change, in order. `silent`: why nothing is answered. `refusal`: of any change."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicView] = {}
        self.passwords: dict[tuple[str, str], str] = {}
        """(user, mechanism) → password."""
        self.acls: dict[str, set[Acl]] = {}
        """By principal."""
        self.authorizer = True
        self.quotas: dict[str, dict[str, float]] = {}
        self.changes: list[KafkaChange] = []
        self.looks = 0
        self.seen_at: Where | None = None
        """The cluster of the last look."""
        self.silent: Unknown | None = None
        self.refusal: OperatorError | None = None
        self._ids = itertools.count(1)

    async def topic(self, *, where: Where, name: str) -> TopicView | Unknown | None:
        self.looks += 1
        self.seen_at = where
        return self.silent or self.topics.get(name)

    async def user(
        self, *, where: Where, name: str, principal: str, credentials: bool, acls: bool, quotas: bool
    ) -> UserView | Unknown:
        self.looks += 1
        self.seen_at = where
        if self.silent is not None:
            return self.silent
        found = tuple(sorted(self.acls.get(principal, ()))) if self.authorizer else None
        return UserView(
            mechanisms=frozenset(mechanism for user, mechanism in self.passwords if user == name and credentials),
            acls=found if acls else (),
            quotas=dict(self.quotas.get(name, {})) if quotas else {},
        )

    async def change(self, *, where: Where, change: KafkaChange, password: str = "") -> None:  # noqa: C901
        if self.silent is not None:
            raise Transient(self.silent.reason, self.silent.message)
        if self.refusal is not None:
            raise self.refusal
        self.changes.append(change)
        match change:
            case CreateTopic():
                self.create(change)
            case AddPartitions():
                live = self.topics[change.name]
                assert change.total > live.partitions
                self.topics[change.name] = replace(live, partitions=change.total)
            case SetTopicConfigs():
                live = self.topics[change.name]
                if any(live.configs.get(key) != value for key, value in change.values.items() if key in OWN):
                    raise Refused("ClusterRefuses", "a topic keeps what it was made with")
                gone = set(change.reset) - OWN.keys()  # their removal is answered as done, and they stay
                kept = {key: value for key, value in live.configs.items() if key not in gone}
                self.topics[change.name] = replace(live, configs={**kept, **change.values})
            case DeleteTopic():
                if change.name in self.topics and self.topics[change.name].topic_id == change.topic_id:
                    del self.topics[change.name]
            case SetPassword():
                assert password
                self.passwords[change.user, change.mechanism] = password
            case RemoveCredential():
                del self.passwords[change.user, change.mechanism]
            case AddAcls():
                if not self.authorizer:
                    raise Refused("ClusterRefuses", "no authorizer")
                self.acls.setdefault(change.principal, set()).update(change.acls)
            case RemoveAcls():
                self.acls[change.principal] -= set(change.acls)
            case SetQuotas():
                mine = self.quotas.setdefault(change.user, {})
                mine.update(change.values)
                for key in change.removed:
                    mine.pop(key, None)

    def create(self, change: CreateTopic) -> TopicView:
        """Also what somebody else creates."""
        if change.name in self.topics:
            raise Transient("TopicExists", "it exists by now")
        made = TopicView(
            topic_id=f"id-{next(self._ids)}",
            partitions=change.partitions or 1,
            replication_factor=change.replication_factor or 3,
            configs=dict(change.configs),
        )
        self.topics[change.name] = made
        return made
