"""What the topics of an image leave for new ones: names, and Raft groups.

Problem: `controller` compares one new name with all topics, and counts the partitions of all topics for one new topic;
a request of 25,000 topics beside 2,000 would do 50 million of both. Mechanism: an index and a count of one image, made
again when another image is asked about. What this does not do: know the other topics of the request, of which the
controller's log accepts the first ones.
"""

from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.transitions import too_many_groups


class PlaceForTopics:
    """Of one request."""

    __slots__ = ("_image", "_metric_names", "_too_many")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._metric_names: dict[str, str] = {}
        self._too_many: dict[int, str | None] = {}

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

    def _look_at(self, image: ClusterImage) -> None:
        if image is not self._image:
            self._image = image
            self._metric_names = {name.replace(".", "_"): name for name in image.topics}
            self._too_many = {}
