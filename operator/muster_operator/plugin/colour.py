"""Colours for words of a table, if the terminal shows them and the user did not disable them (https://no-color.org)."""

from collections.abc import Mapping
from typing import Any

GREEN, YELLOW, RED, DIM = "32", "33", "31", "2"
_WORDS = {
    "QUORUM": {"True": GREEN, "False": RED, "Unknown": YELLOW},
    "STATIC": {"True": GREEN, "False": YELLOW, "Unknown": YELLOW},
    "STATE": {"Stable": GREEN, "Unknown": YELLOW, "PreparingRebalance": YELLOW, "CompletingRebalance": YELLOW},
    "LAG": {"0": GREEN, "Unknown": YELLOW},
}


def wanted(stream: Any, environment: Mapping[str, str]) -> bool:  # noqa: ANN401  # any text stream
    """Whether `stream` is a terminal that shows colours. An empty NO_COLOR counts as not set."""
    return bool(stream.isatty()) and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def painted(column: str, text: str) -> str:
    """The `text` of a cell, padding included, in its colour."""
    code = _code(column, text.strip())
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _code(column: str, word: str) -> str | None:
    if column == "READY" and "/" in word:
        ready, _, there = word.partition("/")
        return GREEN if ready == there else YELLOW
    if word in ("-", "none"):
        return DIM
    return _WORDS.get(column, {}).get(word)
