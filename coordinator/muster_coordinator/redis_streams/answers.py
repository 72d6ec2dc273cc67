"""Answers of Redis in the shapes of RESP2 and RESP3 (`redis.protocol`): a map is a flat list of names and values in the
former.

Problem: what a server, or a proxy before it, answers may be anything, and costs a call at most. Mechanism: whatever is
not of the expected shape is a ValueError. What this does not do: know what names mean.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster_coordinator.redis_streams.addresses import text_of
from muster_coordinator.redis_streams.append_ids import parse_append
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


def of_script(script: str, answer: Any) -> bool:  # noqa: ANN401  # as it was answered
    """Is this what the script of ours with this name returns: a word, and what belongs to it? Entries of `read` are
    not looked at: whoever reads them does (`entries.records_of`)."""
    if not isinstance(answer, list) or not answer or not isinstance(answer[0], bytes):
        return False
    wanted = ANSWERS[script].get(answer[0])
    if wanted is None:
        return False
    return len(wanted) == len(answer) - 1 and all(fits(one) for fits, one in zip(wanted, answer[1:], strict=True))


_Fits = Callable[[Any], bool]


def _is_text(one: object) -> bool:
    return isinstance(one, bytes)


def _is_id(one: object) -> bool:
    try:
        return isinstance(one, bytes) and EntryId.parse(one) is not None
    except ValueError:
        return False


def _is_id_or_none(one: object) -> bool:
    return one == b"" or _is_id(one)


def _is_append_or_none(one: object) -> bool:
    try:
        return one == b"" or (isinstance(one, bytes) and parse_append(one) is not None)
    except ValueError:
        return False


def _is_number(one: object) -> bool:
    return isinstance(one, int) and one >= 0


def _is_list(one: object) -> bool:
    return isinstance(one, list)


def _is_names_and_values(one: object) -> bool:
    return isinstance(one, list) and len(one) % 2 == 0 and all(isinstance(text, bytes) for text in one)


def _told(*words: bytes) -> dict[bytes, tuple[_Fits, ...]]:
    """Words with a text each."""
    return dict.fromkeys(words, (_is_text,))


_COUNTED: tuple[_Fits, ...] = (_is_number, _is_id_or_none, _is_number, _is_id_or_none, _is_id_or_none)
_LISTED: tuple[_Fits, ...] = (_is_text, _is_names_and_values)
_READ: tuple[_Fits, ...] = (
    _is_id, _is_id_or_none, _is_id_or_none, _is_append_or_none, _is_id_or_none, _is_list
)  # fmt: skip
_NOT_OWNED = _told(b"FENCED", b"UNCLAIMED", b"TYPE")
ANSWERS: Mapping[str, Mapping[bytes, tuple[_Fits, ...]]] = {
    "append": {
        **dict.fromkeys((b"OK", b"DUPLICATE"), (_is_id,)),
        **_NOT_OWNED,
        **_told(b"STALE", b"SEQUENCE", b"EPOCH", b"BEYOND"),
    },
    "behind": {b"OK": _COUNTED, **_NOT_OWNED, **_told(b"BEYOND")},
    "claim": _told(b"OK", b"TYPE", b"CLUSTER", b"FENCED"),
    "expire": _told(b"OK", b"FENCED", b"UNCLAIMED"),
    "forget": _told(b"OK", b"KEPT", b"MORE"),
    "mirror": {**_told(b"OK", b"STALE", b"FOREIGN", b"USED", b"NONE"), **_NOT_OWNED},
    "mirrored": dict.fromkeys((b"OK", b"FENCED", b"UNCLAIMED"), _LISTED),
    "prove": {b"OK": (_is_append_or_none,), **_told(b"FENCED", b"UNCLAIMED")},
    "read": {b"OK": _READ, **_NOT_OWNED},
    "trim": {**_told(b"OK"), **_NOT_OWNED},
}
"""Script and word: what follows the word."""
