"""The oracle of lag in records: which entries of a stream a consumer that begins at an offset has before it.

By what Kafka's consumers do (they read what is at their offset and above, up to the log end offset) and by the order of
ids that Redis documents; a position is a pair of numbers of any size, so no id is beyond it.
"""

from collections.abc import Sequence

Id = tuple[int, int]


def lying_behind(entries: Sequence[Id], last_ever: Id, committed: int, bits: int) -> int | None:
    """How many of the entries; None for an offset above the log end offset, which nobody can have read up to."""
    if committed == 0:
        return len(entries)
    one_before = divmod(committed - 1, 2**bits)
    return None if one_before > last_ever else sum(one > one_before for one in entries)
