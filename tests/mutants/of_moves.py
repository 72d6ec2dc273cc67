"""Mutants of moves that are carried out (ADR 42)."""

from tests.mutants.rule_mutant import one

MOVES = "replica.test_moves."
OFFSETS = "replica.test_offsets_moves."
VOTERS = "replica.test_controller_voters."
RULES = "controller.test_voters."

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
        "r31 a voter promises again before its release is stored",
        "raft.suspension",
        "        state.release_told = True\n",
        "        state.suspended = 0\n",
        "raft.test_suspension.test_only_its_own_token_releases_it",
    ),
    one(
        "r31 a voter counts again although its release could not be stored",
        "replica.partitions.suspensions",
        "REMEMBER_RETRY_MS, again)\n                return\n",
        "REMEMBER_RETRY_MS, again)\n",
        "replica.multiraft.test_lost_promises."
        "test_a_voter_counts_when_its_release_is_stored_and_a_power_loss_right_after_finds_it",
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
    one(
        "ADR 45: who voted before is free to go at once",
        "controller.voters",
        "    return replace(cluster, voters=voters, former_voters=former, controller",
        "    return replace(cluster, voters=voters, former_voters=former[:0], controller",
        VOTERS + "test_who_may_still_vote_is_not_unregistered",
    ),
    one(
        "ADR 45: a wish that is replaced forgets who may vote by the one before",
        "controller.voters",
        "    former = tuple(sorted({*cluster.voters, *cluster.former_voters} - {*voters}))\n",
        "    former = tuple(sorted({*cluster.voters} - {*voters}))\n",
        RULES + "test_a_wish_is_replaced_and_all_of_before_may_still_vote",
    ),
    one(
        "ADR 45: a late word completes another change than the one it saw",
        "controller.voters",
        "    if set(voters) != set(cluster.voters) or not cluster.former_voters:\n",
        "    if not cluster.former_voters:\n",
        RULES + "test_a_wish_is_replaced_and_all_of_before_may_still_vote",
    ),
    one(
        "ADR 45: the controller's leader never says that its group has changed",
        "replica.maintenance.membership",
        "    if image.former_voters:\n",
        "    if not image:\n",
        VOTERS + "test_observers_become_voters_and_voters_observers",
    ),
    one(
        "ADR 45: who votes no longer is out of the group until it is taken in again",
        "replica.multiraft.reconfiguration",
        "        tuple(one for one in (*kept, *present.voters) if one in observers),\n",
        "        tuple(one for one in kept if one in observers),\n",
        "replica.multiraft.test_reconfiguration.test_a_voter_that_is_to_observe_does_so_from_the_same_change_on",
    ),
)
