"""Decoded group records of a chunk, which can be cut where the clock is not certain yet."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecords:
    """Group records in log order: decoded rows, and (log offset, group) of those that could not be read."""

    generations: list[dict[str, Any]]
    consumer_groups: list[dict[str, Any]]
    unread: list[tuple[int, str]]

    def until(self, log_offset: int) -> tuple["GroupRecords", "GroupRecords"]:
        """(those below the offset, the others)."""
        parts = []
        for wanted in (True, False):
            parts.append(
                GroupRecords(
                    generations=[one for one in self.generations if (one["log_offset"] < log_offset) is wanted],
                    consumer_groups=[one for one in self.consumer_groups if (one["log_offset"] < log_offset) is wanted],
                    unread=[one for one in self.unread if (one[0] < log_offset) is wanted],
                )
            )
        return parts[0], parts[1]

    def joined(self, later: "GroupRecords") -> "GroupRecords":
        """Both, one after the other."""
        return GroupRecords(
            generations=self.generations + later.generations,
            consumer_groups=self.consumer_groups + later.consumer_groups,
            unread=self.unread + later.unread,
        )


NO_RECORDS: Final = GroupRecords(generations=[], consumer_groups=[], unread=[])
