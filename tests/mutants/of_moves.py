"""Mutants of moves that are carried out (ADR 42)."""

from tests.mutants.rule_mutant import one

MOVES = "replica.test_moves."

MOVES_MUTANTS = (
    one(
        "ADR 42: a replica goes when it is not wanted, before the group has let it go",
        "replica.group_manager",
        "                if self._settings.broker not in partition.holders:\n",
        "                if self._settings.broker not in partition.voters:\n",
        MOVES + "test_a_move_is_cancelled_and_whoever_came_goes_again",
    ),
    one(
        "ADR 42: a replica is removed without the controller's word",
        "replica.partitions.moved_away",
        "        if not current:\n",
        "        if False:\n",
        MOVES + "test_a_replica_that_leaves_waits_for_the_controllers_word",
    ),
    one(
        "ADR 42: what a removed replica promised is remembered by nobody",
        "replica.partitions.moved_away",
        "self._wal.suspend(number, True)",
        "self._wal.suspend(number, False)",
        MOVES + "test_a_partition_moves_with_all_that_was_acknowledged_and_leaves_nothing_behind",
    ),
    one(
        "ADR 42: a replica that leaves goes on promising",
        "replica.partitions.moved_away",
        "            group.core.suspend()\n            group.suspended = True",
        "            group.suspended = bool(group.core.suspended)",
        MOVES + "test_a_replica_that_leaves_waits_for_the_controllers_word",
    ),
    one(
        "ADR 42: the controller is told of members that are not committed",
        "replica.maintenance.membership",
        "        if not (is_as_wanted(group, wanted) and group.members_committed):\n",
        "        if not is_as_wanted(group, wanted):\n",
        MOVES + "test_the_controller_is_told_only_when_the_new_members_are_committed",
    ),
    one(
        "ADR 42: the controller is told before the members are as wanted",
        "replica.maintenance.membership",
        "        if not (is_as_wanted(group, wanted) and group.members_committed):\n",
        "        if not group.members_committed:\n",
        MOVES + "test_a_move_is_cancelled_and_whoever_came_goes_again",
    ),
    one(
        "ADR 42: a replica that comes back begins with the log of before",
        "replica.snapshots.group_making",
        "        if number in self._forgotten:\n            return False\n",
        "",
        MOVES + "test_a_group_that_a_start_has_found_comes_back_as_a_new_one",
    ),
    one(
        "ADR 42: a replica is made while the one before is being removed",
        "replica.partitions.topic_making",
        "        if number in self._leaving:\n            return\n",
        "",
        MOVES + "test_wanted_again_while_it_is_being_removed",
    ),
    one(
        "ADR 42: a start leaves what a crash has left",
        "replica.group_manager",
        "                    if number in self._topics or number in self._unclaimed:\n",
        "                    if number in self._topics:\n",
        MOVES + "test_a_start_removes_what_is_elsewhere_by_its_checkpoint",
    ),
)
