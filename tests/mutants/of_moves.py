"""Mutants of moves that are carried out (ADR 42)."""

from tests.mutants.rule_mutant import one

MOVES = "replica.test_moves."
OFFSETS = "replica.test_offsets_moves."

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
        "wal.suspend(number, True)",
        "wal.suspend(number, False)",
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
        "                    if number in self._topics or number in self._unclaimed or number in self.logs:\n",
        "                    if number in self._topics or number in self.logs:\n",
        MOVES + "test_a_start_removes_what_is_elsewhere_by_its_checkpoint",
    ),
    one(
        "ADR 45: a founder begins a group anew that was moved away from it",
        "replica.group_manager",
        "        return wal.may_lack_groups or not wal.is_suspended(number)\n",
        "        return True\n",
        OFFSETS + "test_a_founder_that_was_let_go_does_not_begin_the_group_anew_at_a_start",
    ),
    one(
        "ADR 45: founders wait for an image that nobody can give them",
        "replica.group_manager",
        "        return wal.may_lack_groups or not wal.is_suspended(number)\n",
        "        return False\n",
        OFFSETS + "test_founders_begin_their_groups_before_there_is_an_image",
    ),
    one(
        "ADR 45: an offsets partition's replica is looked for in the topics' WAL",
        "replica.group_manager",
        "        return self._offsets_writer if number < self._first_topic_group() else self.topics_writer\n",
        "        return self.topics_writer\n",
        OFFSETS + "test_a_founder_that_was_let_go_does_not_begin_the_group_anew_at_a_start",
    ),
    one(
        "ADR 45: what a removed coordinator counted is forgotten",
        "replica.group_manager",
        "            self.past_stats = summed((self.past_stats, shard.shard.stats))\n",
        "",
        OFFSETS + "test_an_offsets_partition_moves_with_all_that_was_acknowledged_and_leaves_nothing_behind",
    ),
    one(
        "ADR 45: a coordinator that comes later knows no deleted topics",
        "replica.group_manager",
        "            machine.topic_deleted(topic_id)\n",
        "            pass\n",
        OFFSETS + "test_a_shard_that_comes_later_knows_which_topics_were_deleted",
    ),
    one(
        "ADR 45: a replica that was let go forgets who coordinates",
        "replica.multiraft.host",
        "        if deleted:\n            self.leaders.forget(group.number)\n",
        "        if deleted or not deleted:\n            self.leaders.forget(group.number)\n",
        OFFSETS + "test_every_broker_names_the_coordinator_within_a_second_of_the_move",
    ),
)
