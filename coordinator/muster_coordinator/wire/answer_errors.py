"""Which error codes an answer carries, found in the values that the encoders take.

Problem: Kafka counts errors by API and code, at whichever level of an answer they are: the whole, a topic, a partition,
a group. Mechanism: a function per hot API, a walk over nested dictionaries for the rest. What it does not do: say which
partition had the error, or look at more than `limits.ANSWER_PARTS_LOOKED_AT` parts of one answer, so that a Metadata
of ten thousand partitions is not walked a second time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from muster_coordinator.wire import limits
from muster_coordinator.wire.versions import Api

Errors = Iterable[int]
"""Each code once; 0 may be among them."""


class _WithError(Protocol):
    @property
    def error(self) -> int: ...


def _own(answer: _WithError) -> Errors:
    return (answer.error,)


def _of_commit(answer: Sequence[tuple[Any, Sequence[tuple[int, int]]]]) -> Errors:
    if len(answer) == 1 and len(answer[0][1]) == 1:  # nearly every commit
        return (answer[0][1][0][1],)
    return {error for _, parts in answer for _, error in parts}


def _of_fetched_offsets(answer: Sequence[Any]) -> Errors:
    found = {group.error for group in answer}
    left = limits.ANSWER_PARTS_LOOKED_AT
    for group in answer:
        for _, offsets in group.topics:
            found.update(offset.error for offset in offsets[:left])
            left -= min(left, len(offsets))
    return found


def _of_dictionary(answer: Mapping[str, Any]) -> Errors:
    """For the compiled codecs: the error codes of the answer itself and of the structures in its lists."""
    found: set[int] = set()
    work: list[Mapping[str, Any]] = [answer]
    looked_at = 0
    while work and looked_at < limits.ANSWER_PARTS_LOOKED_AT:
        looked_at += 1
        for name, value in work.pop().items():
            if name in _CODES:
                found.add(value)
            elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
                work.extend(value[: limits.ANSWER_PARTS_LOOKED_AT])
    return found


def _of_the_whole(answer: Mapping[str, Any]) -> Errors:
    """An answer with thousands of rows, of which none has an error of its own."""
    return (answer["error_code"],)


_CODES = ("error_code", "partition_error_code")
"""The second one in AddPartitionsToTxn."""
_HOT: Mapping[int, Callable[[Any], Errors]] = {
    Api.HEARTBEAT: _own,
    Api.JOIN_GROUP: _own,
    Api.SYNC_GROUP: _own,
    Api.OFFSET_COMMIT: _of_commit,
    Api.OFFSET_FETCH: _of_fetched_offsets,
    Api.LIST_GROUPS: _of_the_whole,
}


def errors_in(api: int) -> Callable[[Any], Errors]:
    """The function that finds the codes in this API's answers, as its encoder takes them."""
    return _HOT.get(api, _of_dictionary)
