"""How long something takes still, by how fast it went so far. Pure."""

from datetime import datetime


def seconds_left(*, left: int, first: int, since: str, now_ms: int) -> int | None:
    """`first`: how much there was at `since`, as a status has it; None: nothing is done yet."""
    took_ms = now_ms - int(datetime.fromisoformat(since).timestamp() * 1_000)
    if first <= left or took_ms <= 0:
        return None
    return -(-left * took_ms // ((first - left) * 1_000))
