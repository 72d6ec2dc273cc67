"""Metadata: brokers, topics and leaders, for the client's listener (protocol notes 11.1, 11.2).

leaderEpoch is the Raft term of the leadership, so it never decreases under one topic id (KIP-320). Topics are created
here only with `auto.create.topics.enable` (`auto_create`), so that a typo creates none. An answer with a partition
without leader waits up to `limits.METADATA_LEADERLESS_WAIT_MS` for one, because aiokafka asks again without any pause
(about 1,500 times a second), and up to `limits.METADATA_NEW_PARTITION_WAIT_MS` when a partition has never had a leader.
A topic is called unknown, and all topics are listed, only after the image was confirmed as current (`doubt`). Without
confirmation an unknown topic is answered 5, and a list of all is sent after `limits.METADATA_ALL_TOPICS_WAIT_MS`.
A thousand topics are judged in a turn of the loop, all from one image and one view of the brokers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.auto_create import AutoCreate
from muster_coordinator.api.cluster_view import ClusterView
from muster_coordinator.api.doubt import ABSENT, Doubt
from muster_coordinator.api.gather import in_turns
from muster_coordinator.api.leader_wait import LeaderWait, standing_of_group
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, Partition, Topic
from muster_coordinator.controller.topic_names import name_error
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_ALLOWED_SINCE = 4
"""The first version that can forbid to create topics."""
_NULL_IS_ALL_SINCE, _LISTENER_ERROR_SINCE, _OFFLINE_SINCE, _BY_ID_SINCE = 1, 6, 5, 12
_IDS = range(10, 12)
"""Versions that have topic ids in the request, but must not use them."""


class _Asking(NamedTuple):
    """One request until it is answered."""

    context: RequestContext
    version: int
    request: Value
    created: Mapping[str, Code]
    """Codes for topics that do not exist because they are just being created."""
    doubt: Doubt
    reply: Exchange

    @property
    def everything(self) -> bool:
        topics = self.request.topics
        return topics is None or (self.version < _NULL_IS_ALL_SINCE and not topics)


class _Answer:
    """One answer under construction, and what it lacks."""

    __slots__ = ("absent", "leaderless", "unborn", "value")

    def __init__(self) -> None:
        self.absent = Code.NONE
        """The error of a topic that the image does not have; for a list of all, the error that a missing one would
        have."""
        self.leaderless: list[GroupNo] = []
        """Raft groups of the partitions without leader."""
        self.unborn = False
        """Whether one of them has never had a leader."""
        self.value: dict[str, Value] = {}

    def lacks(self, code: Code, doubt: Doubt) -> Code:
        """Note the error of a topic that the image does not have; returns the code to answer now."""
        if code in ABSENT:
            self.absent = code
        return doubt.answer(code)


class Metadata:
    """Handler of Metadata v0-13."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._auto = AutoCreate(services)

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """Answers at once when all partitions have leaders, else when they have, or after the wait."""
        surface = self._services.surface
        image = surface.image()
        allowed = version < _ALLOWED_SINCE or request.allow_auto_topic_creation
        by_id = version in _IDS or version >= _BY_ID_SINCE
        if image is None or not allowed or (by_id and any(t.topic_id != EMPTY_ID for t in request.topics or ())):
            self._begin(context, version, request, {}, reply)
            return
        names = list(dict.fromkeys(t.name for t in request.topics or () if t.name is not None))
        again = self._auto.in_the_making(names)
        mutations = reply.mutations_by_the_way(context)

        def told(created: dict[str, Code]) -> None:
            self._begin(context, version, request, created, reply, again=again)

        self._auto.missing(context, names, image, mutations, told)

    def _begin(
        self,
        context: RequestContext,
        version: int,
        request: Value,
        created: Mapping[str, Code],
        reply: Exchange,
        *,
        again: bool = False,
    ) -> None:
        """`again`: the creation of one of the topics was already under way."""
        surface = self._services.surface
        asking = _Asking(context, version, request, created, Doubt(surface, Code.LEADER_NOT_AVAILABLE), reply)
        if again:
            # A client that asks again without a pause waits until there may be news.
            later_ms = surface.loop.monotonic_ms() + limits.METADATA_LEADERLESS_WAIT_MS
            surface.loop.call_at(later_ms, lambda: self._prove(asking))
        else:
            self._prove(asking)

    def _prove(self, asking: _Asking, *, waited: bool = False) -> None:
        """Make the answer. If it says that something does not exist, first confirm that the image is current."""
        self._make(asking, partial(self._made, asking, waited))

    def _made(self, asking: _Asking, waited: bool, answer: _Answer) -> None:
        if asking.doubt.proven is not None or answer.absent is Code.NONE:
            self._answer(asking, waited, answer)
        elif asking.everything:
            self._list_all(asking, waited=waited)
        else:
            asking.doubt.parks(answer.absent, lambda: self._prove(asking, waited=waited))

    def _list_all(self, asking: _Asking, *, waited: bool) -> None:
        """List all topics when the image is confirmed as current, or after METADATA_ALL_TOPICS_WAIT_MS."""
        loop = self._services.surface.loop
        told = False

        def tell() -> None:
            nonlocal told
            if not told:
                told = True
                timer.cancel()
                self._make(asking, partial(self._answer, asking, waited))

        timer = loop.call_at(loop.monotonic_ms() + limits.METADATA_ALL_TOPICS_WAIT_MS, tell)
        asking.doubt.parks(Code.UNKNOWN_TOPIC_OR_PARTITION, tell)

    def _answer(self, asking: _Asking, waited: bool, answer: _Answer) -> None:
        if waited or not answer.leaderless:
            asking.reply(answer.value)
            return
        surface = self._services.surface
        if not answer.value["brokers"]:
            wait_ms = limits.METADATA_NO_BROKER_WAIT_MS
        else:
            wait_ms = limits.METADATA_NEW_PARTITION_WAIT_MS if answer.unborn else limits.METADATA_LEADERLESS_WAIT_MS
        LeaderWait(
            surface,
            answer.leaderless,
            standing_of_group(surface, asking.context.listener),
            surface.loop.monotonic_ms() + wait_ms,
            lambda _: self._prove(asking, waited=True),
        )

    def _make(self, asking: _Asking, done: Callable[[_Answer], None]) -> None:
        """Make an answer from the present image, and pass it on, maybe in a later turn."""
        context, version, request = asking.context, asking.version, asking.request
        answer = _Answer()
        image = self._services.surface.image()
        if image is None:
            answer.leaderless.append(CONTROLLER_GROUP)
            asked = request.topics or ()
            codes = [_topic(Code.LEADER_NOT_AVAILABLE, t.name or "", t.topic_id) for t in asked]
            answer.value = {"error_code": 0, "brokers": (), "topics": codes, "cluster_id": None, "controller_id": -1}
            done(answer)
            return
        view = ClusterView(self._services.surface, image, context.listener)
        nodes = view.nodes()
        if not nodes:
            answer.leaderless.append(CONTROLLER_GROUP)  # Brokers' registrations are not applied here yet.
        asked = request.topics
        if asked is not None and version in _IDS and any(t.name is None or t.topic_id != EMPTY_ID for t in asked):
            topics = [_topic(Code.INVALID_REQUEST, t.name or "", t.topic_id) for t in asked]
            answer.value = {"brokers": (), "topics": topics, "cluster_id": image.cluster_id, "controller_id": -1}
            done(answer)
            return
        answer.value = {
            "error_code": 0,
            "brokers": [{"node_id": n.node_id, "host": n.host, "port": n.port, "rack": n.rack} for n in nodes],
            "cluster_id": image.cluster_id,
            "controller_id": view.controller_id(),
            "topics": [],
        }
        if request.include_cluster_authorized_operations:
            answer.value["cluster_authorized_operations"] = self._services.cluster_operations(context)
        self._topics(asking, view, answer, done)

    def _topics(self, asking: _Asking, view: ClusterView, answer: _Answer, done: Callable[[_Answer], None]) -> None:
        """Fill in the topics, some of them in each turn of the loop."""
        asked = asking.request.topics
        keys: list[str | bytes | None]
        if asking.everything:
            answer.absent = Code.UNKNOWN_TOPIC_OR_PARTITION
            keys = [name for name in view.image.topics if self._may(asking.context, name)]
        elif asking.version >= _BY_ID_SINCE and any(t.topic_id != EMPTY_ID for t in asked):
            keys = list(dict.fromkeys(t.topic_id for t in asked if t.topic_id != EMPTY_ID))
        else:
            keys = list(dict.fromkeys(t.name for t in asked))
        topics: list[Value] = answer.value["topics"]

        def add(index: int) -> int:
            topics.append(self._one(asking, keys[index], view, answer))
            return 0

        in_turns(self._services.surface.loop, len(keys), add, lambda: done(answer))

    def _one(self, asking: _Asking, key: str | bytes | None, view: ClusterView, answer: _Answer) -> dict[str, Value]:
        """The topic of this name or id."""
        if isinstance(key, bytes):
            topic = self._by_id(asking, key, view, answer)
        else:
            topic = self._by_name(asking, key, view, answer)
        if asking.request.include_topic_authorized_operations and topic["error_code"] == Code.NONE:
            resource = Resource(ResourceType.TOPIC, topic["name"])
            topic["topic_authorized_operations"] = self._services.operations(asking.context, resource)
        return topic

    def _may(self, context: RequestContext, name: str) -> bool:
        return self._services.may_topic(context, Operation.DESCRIBE, name)

    def _by_name(self, asking: _Asking, name: str | None, view: ClusterView, answer: _Answer) -> dict[str, Value]:
        if name is None:
            return _topic(Code.INVALID_REQUEST, None, EMPTY_ID)
        if not self._may(asking.context, name):
            return _topic(Code.TOPIC_AUTHORIZATION_FAILED, name, EMPTY_ID)
        topic = view.image.topics.get(name)
        if topic is None:
            invalid = name_error(name) is not None
            code = Code.INVALID_TOPIC_EXCEPTION if invalid else Code.UNKNOWN_TOPIC_OR_PARTITION
            code = asking.created.get(name, code)
            return _topic(answer.lacks(code, asking.doubt), name, EMPTY_ID)
        return self._described(asking.version, topic, view, answer)

    def _by_id(self, asking: _Asking, topic_id: bytes, view: ClusterView, answer: _Answer) -> dict[str, Value]:
        topic = view.topic_by_id(topic_id)
        if topic is None:
            return _topic(answer.lacks(Code.UNKNOWN_TOPIC_ID, asking.doubt), None, topic_id)
        if not self._may(asking.context, topic.name):
            return _topic(Code.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
        return self._described(asking.version, topic, view, answer)

    def _described(self, version: int, topic: Topic, view: ClusterView, answer: _Answer) -> dict[str, Value]:
        partitions = [self._partition(version, i, p, view, answer) for i, p in enumerate(topic.partitions)]
        return {
            "error_code": Code.NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.internal,
            "partitions": partitions,
        }

    def _partition(
        self, version: int, index: int, partition: Partition, view: ClusterView, answer: _Answer
    ) -> dict[str, Value]:
        leader = view.leader(partition.group)
        code = leader.code
        if code is not Code.NONE:
            answer.leaderless.append(partition.group)
            answer.unborn = answer.unborn or leader.epoch < 0
        if code is Code.LISTENER_NOT_FOUND and version < _LISTENER_ERROR_SINCE:
            code = Code.LEADER_NOT_AVAILABLE
        live = [broker for broker in partition.holders if view.alive(broker)]
        replicas: list[int] = list(partition.holders)
        if version == 0 and len(live) < len(replicas):
            # v0 has no list of offline replicas: dead ids are left out, and the error says that some are.
            replicas = list(live)
            code = code if code is not Code.NONE else Code.REPLICA_NOT_AVAILABLE
        return {
            "error_code": code,
            "partition_index": index,
            "leader_id": leader.leader_id,
            "leader_epoch": leader.epoch,
            "replica_nodes": replicas,
            "isr_nodes": view.in_sync(partition, leader),
            "offline_replicas": [broker for broker in partition.holders if broker not in live],
        }


def _topic(code: Code, name: str | None, topic_id: bytes) -> dict[str, Value]:
    return {"error_code": code, "name": name, "topic_id": topic_id, "partitions": ()}
