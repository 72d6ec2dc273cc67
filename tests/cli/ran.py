"""What a finished command left behind."""

from typing import NamedTuple


class Ran(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str
