"""Numbers for (group, topic, partition): folds keep state in arrays, so every key needs a small dense number.

A key's number is the order of its first appearance in the log partition, hence independent of chunk borders. Strings
are dictionary-encoded by Arrow; Python touches the distinct names of a chunk, and each key once in its life.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.tables.errors import LimitReached
from muster_pipeline.transforms import limits
from muster_pipeline.transforms.arrays import Ints, ints
from muster_pipeline.transforms.grow import Grow


class KeyNumbers:
    """The keys of one log partition."""

    __slots__ = ("_groups", "_known", "_of_key", "_pairs", "_topics", "keys")

    def __init__(self) -> None:
        self._groups = _Names()
        self._topics = _Names()
        self._pairs = _Numbers()
        """Of (group, topic)."""
        self._known = _Numbers()
        """Of (pair, partition)."""
        self._of_key = (Grow(np.int64(0)), Grow(np.int64(0)), Grow(np.int64(0)))
        """Number of the group, of the topic, and the partition."""
        self.keys: list[tuple[str, str, int]] = []
        """By number."""

    def __len__(self) -> int:
        return len(self.keys)

    def resolve(self, groups: pa.ChunkedArray, topics: pa.ChunkedArray, partitions: pa.ChunkedArray) -> Ints:
        """The number of every row's key. Raises LimitReached."""
        if len(groups) == 0:
            return np.empty(0, dtype=np.int64)
        group, topic = self._groups.resolve(groups), self._topics.resolve(topics)
        partition = ints(partitions)
        pair = self._pairs.resolve((group << 32) + topic)[0]
        numbers, first = self._known.resolve((pair << 32) + (partition & 0xFFFFFFFF))
        if len(first):
            self._learn(group[first], topic[first], partition[first])
        return numbers

    def columns(self, numbers: Ints) -> dict[str, pa.Array]:
        """Columns `group_id`, `topic` and `partition` of these keys."""
        group, topic, partition = (column.values[numbers] for column in self._of_key)
        return {
            "group_id": self._groups.column(group),
            "topic": self._topics.column(topic),
            "partition": pa.array(partition).cast(pa.int32()),
        }

    def _learn(self, group: Ints, topic: Ints, partition: Ints) -> None:
        """Keys that are new, in the order of their numbers."""
        begin, end = len(self.keys), len(self.keys) + len(group)
        if end > limits.KEYS_MAX:
            raise LimitReached(f"more than KEYS_MAX = {limits.KEYS_MAX} group partitions in one log partition")
        for column, values in zip(self._of_key, (group, topic, partition), strict=True):
            column.ensure(end)[begin:end] = values
        names, topics = self._groups.names, self._topics.names
        told = zip(group.tolist(), topic.tolist(), partition.tolist(), strict=True)
        self.keys += [(names[one], topics[other], number) for one, other, number in told]


class _Numbers:
    """Dense numbers of values, in the order of their first appearance."""

    __slots__ = ("_number", "_value")

    def __init__(self) -> None:
        self._value = np.empty(0, dtype=np.int64)
        """Ascending; parallel to `_number`."""
        self._number = np.empty(0, dtype=np.int64)

    def resolve(self, values: Ints) -> tuple[Ints, Ints]:
        """(the number of each value, the row at which each new one appears first, by number)."""
        encoded = pc.dictionary_encode(pa.array(values))
        distinct, local = ints(encoded.dictionary), ints(encoded.indices)
        place = np.searchsorted(self._value, distinct)
        is_new = np.ones(len(distinct), dtype=np.bool_)
        inside = np.flatnonzero(place < len(self._value))
        is_new[inside] = self._value[place[inside]] != distinct[inside]
        number = np.empty(len(distinct), dtype=np.int64)
        number[~is_new] = self._number[place[~is_new]]
        fresh = np.flatnonzero(is_new)  # a dictionary of Arrow's is in the order of first appearance
        if not len(fresh):
            return number[local], fresh
        number[fresh] = len(self._value) + np.arange(len(fresh))
        ascending = fresh[np.argsort(distinct[fresh])]
        self._value = np.insert(self._value, place[ascending], distinct[ascending])
        self._number = np.insert(self._number, place[ascending], number[ascending])
        first = np.empty(len(distinct), dtype=np.int64)
        first[local[::-1]] = np.arange(len(local) - 1, -1, -1)
        return number[local], first[fresh]


class _Names:
    """Numbers of texts, in the order of their first appearance."""

    __slots__ = ("_numbers", "names")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        """By number."""

    def resolve(self, column: pa.ChunkedArray) -> Ints:
        """The number of every row's text."""
        encoded = pc.dictionary_encode(column.combine_chunks())
        distinct = encoded.dictionary.to_pylist()
        for name in distinct:
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        of = np.fromiter((self._numbers[name] for name in distinct), dtype=np.int64, count=len(distinct))
        return of[ints(encoded.indices)]

    def column(self, numbers: Ints) -> pa.Array:
        """The texts of these numbers; only those in use are put into the dictionary."""
        is_used = np.zeros(len(self.names), dtype=np.bool_)
        is_used[numbers] = True
        place = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
        names = pa.array([self.names[number] for number in np.flatnonzero(is_used).tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(place[numbers]), names).cast(pa.string())
