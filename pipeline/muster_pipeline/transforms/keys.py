"""Numbers for (group, topic, partition): folds keep state in arrays, so every key needs a small dense number.

A key's number is the order of its first appearance in the log partition, hence independent of chunk borders. Strings
are dictionary-encoded by Arrow; Python touches only the distinct keys of a chunk.
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

    __slots__ = ("_groups", "_numbers", "_partition_of", "_topics", "keys")

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._groups = _Names()
        self._topics = _Names()
        self._partition_of = Grow(np.int64(0))
        self.keys: list[tuple[str, str, int]] = []
        """By number."""

    def __len__(self) -> int:
        return len(self.keys)

    def resolve(self, groups: pa.ChunkedArray, topics: pa.ChunkedArray, partitions: pa.ChunkedArray) -> Ints:
        """The number of every row's key. Raises LimitReached."""
        if len(groups) == 0:
            return np.empty(0, dtype=np.int64)
        group, topic = _encoded(groups), _encoded(topics)
        pair = pc.dictionary_encode(pa.array(ints(group.indices) * len(topic.dictionary) + ints(topic.indices)))
        wide = (ints(pair.indices) << 32) + (ints(partitions.combine_chunks()) & 0xFFFFFFFF)
        distinct = pc.dictionary_encode(pa.array(wide))
        local = ints(distinct.indices)
        first = np.zeros(len(distinct.dictionary), dtype=np.int64)
        first[local[::-1]] = np.arange(len(local) - 1, -1, -1)
        rows = pa.array(first)
        named = zip(
            groups.take(rows).to_pylist(), topics.take(rows).to_pylist(), partitions.take(rows).to_pylist(), strict=True
        )
        return np.fromiter((self._number(key) for key in named), dtype=np.int64, count=len(first))[local]

    def columns(self, numbers: Ints) -> dict[str, pa.Array]:
        """Columns `group_id`, `topic` and `partition` of these keys."""
        size = len(self.keys)
        return {
            "group_id": self._groups.column(numbers, size),
            "topic": self._topics.column(numbers, size),
            "partition": pa.array(self._partition_of.ensure(size)[numbers]).cast(pa.int32()),
        }

    def _number(self, key: tuple[str, str, int]) -> int:
        found = self._numbers.get(key)
        if found is not None:
            return found
        number = len(self.keys)
        if number >= limits.KEYS_MAX:
            raise LimitReached(f"more than KEYS_MAX = {limits.KEYS_MAX} group partitions in one log partition")
        group, topic, partition = key
        self._numbers[key] = number
        self.keys.append(key)
        self._groups.put(number, group)
        self._topics.put(number, topic)
        self._partition_of.ensure(number + 1)[number] = partition
        return number


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    return pc.dictionary_encode(column.combine_chunks())


class _Names:
    """One part of the keys: distinct names, and which of them each key has."""

    __slots__ = ("_name_of", "_names", "_numbers")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._name_of = Grow(np.int64(0))

    def put(self, key: int, name: str) -> None:
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        self._name_of.ensure(key + 1)[key] = number

    def column(self, keys: Ints, key_count: int) -> pa.Array:
        """Names of these keys; only those in use are put into the dictionary."""
        distinct, local = np.unique(self._name_of.ensure(key_count)[keys], return_inverse=True)
        names = pa.array([self._names[number] for number in distinct], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(local.astype(np.int32)), names).cast(pa.string())
