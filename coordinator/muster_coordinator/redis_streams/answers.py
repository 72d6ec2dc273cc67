"""Answers of Redis in the shapes of RESP2 and RESP3 (`redis.protocol`): a map is a flat list of names and values in the
former.

Problem: what a server, or a proxy before it, answers may be anything, and costs a call at most. Mechanism: whatever is
not of the expected shape is a ValueError. What this does not do: know what names mean.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from muster_coordinator.redis_streams.addresses import text_of
from muster_coordinator.redis_streams.entry_ids import EntryId


def pairs(answer: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401  # as it was answered
    """Names and values. Raises ValueError."""
    if isinstance(answer, Mapping):
        return answer.items()
    if not isinstance(answer, list):
        raise ValueError(f"a {type(answer).__name__} where names and values were expected")
    return zip(answer[::2], answer[1::2], strict=True)


def first_entries(answer: Any) -> list[tuple[str, EntryId]]:  # noqa: ANN401  # as it was answered
    """Of XREAD: streams, and the id of the first entry of each. Raises ValueError."""
    if answer is None:
        return []
    try:
        streams = answer.items() if isinstance(answer, Mapping) else answer
        return [(text_of(stream), EntryId.parse(entries[0][0])) for stream, entries in streams]
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"no answer to XREAD: {error!r}") from error


def of_script(answer: Any) -> bool:  # noqa: ANN401  # as it was answered
    """Is this what a script of ours returns: a word, and what belongs to it?"""
    return isinstance(answer, list) and len(answer) > 1 and isinstance(answer[0], bytes)
