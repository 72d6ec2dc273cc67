"""What the topics of an image leave for new ones: names, Raft groups, and brokers with the fewest replicas.

Problem: `controller` compares one new name with all topics, and counts the partitions of all topics for one new topic;
a request of 25,000 topics beside 2,000 would do 50 million of both. And topics of one request that did not know of each
other would all be placed on the same brokers. Mechanism: an index and counts of one image, made again when another
image is asked about; what was placed for this request before is counted, too, until the image has it. What this does
not do: know the other names of the request, of which the controller's log accepts the first ones, or what other
requests have under way.
"""

from collections.abc import Callable

from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.placement import Loads, Placed, Unplaceable, loads_of, place, with_placed
from muster_coordinator.controller.topics import too_many_groups
from muster_coordinator.ids import BrokerId


class PlaceForTopics:
    """Of one request."""

    __slots__ = ("_avoided", "_image", "_loads", "_made", "_metric_names", "_too_many")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._metric_names: dict[str, str] = {}
        self._too_many: dict[int, str | None] = {}
        self._made: dict[bytes, tuple[int, Placed]] = {}
        """Topic -> how many partitions it has with those that were placed for it, and these."""
        self._loads: Loads | None = None
        """Of the image, with what was placed and is not in it; None: not counted yet."""
        self._avoided: tuple[BrokerId, ...] = ()
        """Brokers that could not be reached when the loads were counted."""

    def colliding(self, name: str, image: ClusterImage) -> str | None:
        """Another topic whose name is the same when "." is written as "_", or None."""
        if "." not in name and "_" not in name:
            return None
        self._look_at(image)
        other = self._metric_names.get(name.replace(".", "_"))
        return None if other == name else other

    def too_many(self, partitions: int, image: ClusterImage) -> str | None:
        """Why this many more partitions are not possible; None if they are."""
        self._look_at(image)
        if partitions not in self._too_many:
            self._too_many[partitions] = too_many_groups(image, partitions)
        return self._too_many[partitions]

    def placed(
        self, topic_id: bytes, count: int, factor: int, image: ClusterImage, alive: Callable[[BrokerId], bool]
    ) -> Placed | Unplaceable:
        """Brokers for this many new partitions of a topic, which may be one that is to be made."""
        self._look_at(image)
        if self._loads is None:
            self._loads = loads_of(image)
            self._avoided = tuple(broker for broker in image.brokers if not alive(broker))
            for made_for, (total, made) in self._made.items():
                name = image.names_by_id.get(made_for)
                if name is None or len(image.topics[name].partitions) < total:
                    self._loads = with_placed(self._loads, made.partitions)
        placed = place(image, self._loads, count, factor, self._avoided)
        if isinstance(placed, Placed):
            name = image.names_by_id.get(topic_id)
            have = 0 if name is None else len(image.topics[name].partitions)
            self._made[topic_id] = (have + count, placed)
            self._loads = placed.loads
        return placed

    def _look_at(self, image: ClusterImage) -> None:
        if image is not self._image:
            self._image = image
            self._loads = None
            self._metric_names = {name.replace(".", "_"): name for name in image.topics}
            self._too_many = {}
