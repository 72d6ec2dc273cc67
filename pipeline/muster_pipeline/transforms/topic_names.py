"""Topic names by topic id, learnt from earlier records of the log partition.

KIP-848 records name topics by id. Names come from type 4 records (Kafka 4.0 and before) and from offset commits that
carry the id (4.1 and later). A name applies from the record that gives it, so that chunk borders do not matter.
"""

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.transforms.arrays import ints


class TopicNames:
    """Topic ids are never reused, so the first name of an id is kept."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, str]] = {}

    def learn(self, topic_id: str, topic: str, log_offset: int) -> None:
        """A record at `log_offset` gives the name."""
        known = self._told.get(topic_id)
        if known is None or log_offset < known[0]:
            self._told[topic_id] = (log_offset, topic)

    def learn_commits(self, records: pa.Table) -> None:
        """From rows of `records` that have a topic id."""
        if records["topic_id"].null_count == records.num_rows:
            return
        told = records.filter(pc.and_(pc.is_valid(records["topic_id"]), pc.is_valid(records["topic"])))
        first = told.group_by("topic_id", use_threads=False).aggregate([("topic", "first"), ("log_offset", "min")])
        columns = (first[name].to_pylist() for name in ("topic_id", "topic_first"))
        for topic_id, topic, at in zip(*columns, ints(first["log_offset_min"]).tolist(), strict=True):
            self.learn(topic_id, topic, at)

    def name(self, topic_id: str, log_offset: int) -> str | None:
        """The name, if a record before `log_offset` or at it has given it."""
        known = self._told.get(topic_id)
        return None if known is None or known[0] > log_offset else known[1]
