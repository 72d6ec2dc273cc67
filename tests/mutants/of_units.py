"""The product broken on purpose for unit tests that once could not fail for what they claim: each must be noticed.

As `catalogue`, but what has to notice the mutant is one file of unit tests.
"""

from typing import NamedTuple

from tests.mutants.catalogue import Mutant, Patch


class UnitMutant(NamedTuple):
    """Noticed by this file of tests."""

    mutant: Mutant
    noticed_by: str


EVERY_VERSION = "tests/api/test_every_version.py"
PROOFS = "tests/redis_streams/test_proofs.py"
UNIT_MUTANTS = (
    UnitMutant(
        Mutant(
            "assignments are hidden while the group rebalances",
            (
                Patch(
                    "groups.views.describe",
                    "            m.assignment,\n",
                    '            m.assignment if stable else b"",\n',
                ),
            ),
        ),
        "tests/groups/views/test_group_views.py",
    ),
    UnitMutant(
        Mutant(
            "an OffsetFetch without a place for the group's error says that all is well",
            (
                Patch(
                    "api.offset_fetch",
                    "            if answer.error:\n",
                    "            if answer.error and version >= 2:\n",
                ),
            ),
        ),
        EVERY_VERSION,
    ),
    UnitMutant(
        Mutant(
            "a LeaveGroup of the first version always worked",
            (
                Patch(
                    "api.heartbeat_leave", "    error = answer.error\n", "    error = answer.error if version else 0\n"
                ),
            ),
        ),
        EVERY_VERSION,
    ),
    UnitMutant(
        Mutant(
            "a group that could not be described is an empty one",
            (
                Patch(
                    "api.describe_list_delete",
                    "        return _undescribed(answer.group, answer.error)\n",
                    "        return _undescribed(answer.group, 0)\n",
                ),
            ),
        ),
        EVERY_VERSION,
    ),
    UnitMutant(
        Mutant(
            "a topic in Redis shows what no replica of Redis has confirmed",
            (
                Patch(
                    "replica.partitions.redis_proofs",
                    "        if self.proved < found.appended:\n            found",
                    "        if self.proved is None:\n            found",
                ),
            ),
        ),
        PROOFS,
    ),
    UnitMutant(
        Mutant(
            "the next owner of a topic in Redis asks for no proof of what is there",
            (
                Patch(
                    "replica.partitions.redis_proofs",
                    "        if earlier and (self._first or self._term < term):\n",
                    "        if earlier and self._first:\n",
                ),
            ),
        ),
        PROOFS,
    ),
    UnitMutant(
        Mutant(
            "the high watermark of a topic in Redis moves back to what its hash says",
            (
                Patch(
                    "replica.partitions.redis_proofs",
                    "max(self._end, found.proved_end)",
                    "found.proved_end",
                ),
            ),
        ),
        PROOFS,
    ),
)
