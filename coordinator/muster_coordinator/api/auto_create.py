"""`auto.create.topics.enable=true`: Metadata creates a topic that a client names and that does not exist.

Kafka's rules: only where the request allows it (before version 4 it always does), with the right to CREATE, with
`num.partitions` partitions, `default.replication.factor` replicas and every setting at its default; internal and
illegal names are never created. The answer does not wait: it is LEADER_NOT_AVAILABLE, on which every client asks again.
At most `limits.AUTO_CREATES_AT_ONCE_MAX` creations are under way here at a time, and as many names of one request are
examined; the others get the same answer and are created when the client asks again. So are those whose replicas have
too few brokers now: the default is never more than the cluster has, so some of them are to come; and those for which
the client has no tokens left (`controller_mutation_rate`), who is not told to pause, as by Kafka's controller: his
records to other topics go over the same connection. What the controller's log would refuse is not proposed: a client
that polls would fill the log with it.
"""

from collections.abc import Callable, Iterable, Sequence

from muster_coordinator.api import limits
from muster_coordinator.api.assignments import placed_replicas
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.create_topics import fresh_topic_id
from muster_coordinator.api.gather import in_turns
from muster_coordinator.api.place_for_topics import PlaceForTopics
from muster_coordinator.api.services import Services
from muster_coordinator.api.stream_configs import judge_level
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import CommandResult, CreateTopic
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.placement import default_factor
from muster_coordinator.controller.topic_names import INTERNAL_NAMES, colliding_name, name_error
from muster_coordinator.controller.topics import raft_groups
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG, Capability
from muster_coordinator.wire.throttling import Mutations


class AutoCreate:
    """Creations that this replica has proposed and that are not decided yet."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._making: set[str] = set()

    def missing(
        self,
        context: RequestContext,
        names: Sequence[str],
        image: ClusterImage,
        mutations: Mutations,
        done: Callable[[dict[str, Code]], None],
    ) -> None:
        """Passes on the code for each missing name that is being created or cannot be; other names are not in it, and
        are answered as without this option. A turn of the loop looks at a thousand names."""
        settings = self._services.settings
        told: dict[str, Code] = {}
        place = PlaceForTopics()
        if not settings.auto_create_topics or not self._services.store.can(Capability.TOPICS):
            done(told)
            return

        def look(index: int) -> int:
            name = names[index]
            if self._lacks(context, name, image):
                enough = len(told) >= limits.AUTO_CREATES_AT_ONCE_MAX
                told[name] = Code.LEADER_NOT_AVAILABLE if enough else self._make(context, name, image, place, mutations)
            return 0

        in_turns(self._services.surface.loop, len(names), look, lambda: done(told))

    def _lacks(self, context: RequestContext, name: str, image: ClusterImage) -> bool:
        """Whether this is the name of a topic that could exist, that does not, and that the client may know of."""
        if not self._services.may_topic(context, Operation.DESCRIBE, name):
            return False
        return name not in image.topics and name not in INTERNAL_NAMES and name_error(name) is None

    def in_the_making(self, names: Iterable[str]) -> bool:
        """Whether the creation of one of them is under way."""
        return not self._making.isdisjoint(names)

    def _make(
        self, context: RequestContext, name: str, image: ClusterImage, place: PlaceForTopics, mutations: Mutations
    ) -> Code:
        services = self._services
        if not services.may_create(context, name):
            return Code.TOPIC_AUTHORIZATION_FAILED
        if name in self._making or len(self._making) >= limits.AUTO_CREATES_AT_ONCE_MAX:
            return Code.LEADER_NOT_AVAILABLE
        partitions = services.settings.num_partitions
        if colliding_name(name, image.topics) is not None:
            return Code.INVALID_TOPIC_EXCEPTION
        if raft_groups(image) + partitions > RAFT_GROUPS_MAX:
            return Code.POLICY_VIOLATION
        topic_id = fresh_topic_id(services.surface, image)
        factor = default_factor(image, services.settings.replication_factor)
        try:
            if services.store is REDIS:
                judge_level(image)
            placed = placed_replicas(partitions, factor, image, place, services.surface, topic_id)
        except ApiError:
            return Code.LEADER_NOT_AVAILABLE
        if not mutations.take(partitions):
            return Code.LEADER_NOT_AVAILABLE
        self._making.add(name)

        def decided(_result: CommandResult) -> None:
            """Whatever the result: a client that still wants the topic asks again."""
            self._making.discard(name)

        configs = ((STORE_CONFIG, REDIS.name),) if services.store is REDIS else ()
        command = CreateTopic(name=name, topic_id=topic_id, partitions=partitions, configs=configs, placed=placed)
        services.surface.submit(command, deadline_ms=context.deadline_ms, done=decided)
        return Code.LEADER_NOT_AVAILABLE
