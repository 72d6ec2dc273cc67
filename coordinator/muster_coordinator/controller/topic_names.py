"""Kafka's rules for topic names: 1-249 characters of `[a-zA-Z0-9._-]`, and no two that differ only in `.` and `_`.

The second rule exists because metric names write both as `_` (protocol notes 15, names).
"""

import re
from collections.abc import Iterable

INTERNAL_NAMES = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's internal topics; `auto.create.topics.enable` creates none of them."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def name_error(name: str) -> str | None:
    """Why `name` is not a legal topic name (error 17), or None."""
    if name in (".", ".."):
        return f"a topic cannot be named {name!r}"
    if _LEGAL.match(name) is None:
        return "a topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"
    return None


def colliding_name(name: str, existing: Iterable[str]) -> str | None:
    """Another existing name that equals `name` when '.' is written as '_' (error 17), or None. O(existing)."""
    if "." not in name and "_" not in name:
        return None
    canonical = name.replace(".", "_")
    for other in existing:
        if other != name and len(other) == len(name) and other.replace(".", "_") == canonical:
            return other
    return None
