"""Marks columns whose value depends on records that log compaction or retention may have removed.

An offsets log is compacted: only the last record of each key is certain to remain. Such a column's comment ends with
`[history: …]`, which says what the value is then; the table reference shows it, and a test keeps the marks in place.
"""

from typing import Final

MARK: Final = " [history: "

LOWER_BOUND: Final = "a lower bound where compaction removed records"
MAY_MISS: Final = "rows are missing where compaction removed records"
MAY_BE_OLDER: Final = "compares with the last remaining record, which may not be the previous one"


def historic(comment: str, effect: str) -> str:
    """The comment with its mark; `effect` says what compaction does to the value."""
    return f"{comment}{MARK}{effect}]"


def is_historic(comment: str) -> bool:
    """Whether a comment carries the mark."""
    return MARK in comment
