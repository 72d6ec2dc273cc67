"""Mutants of a recovery from one folder, and of the epochs that it begins (ADR 40)."""

from tests.mutants.rule_mutant import one

_PLAN = "replica.recovery.plan"
_SURVEY = "replica.recovery.survey"
_EXECUTION = "replica.recovery.execution"
_FORMATION = "replica.bootstrap.formation"
_EPOCHS = "replica.bootstrap.test_epochs."
_LOST = "replica.recovery.test_what_is_lost."
_BACK = "replica.recovery.test_lost_ones_come_back."
_POWER = "replica.recovery.test_power_loss.test_a_power_loss_after_any_effect_is_made_good_by_the_same_command"
_UNSOUND = "replica.recovery.test_unsound_groups."

RECOVERY_MUTANTS = (
    one(
        "ADR 40: a folder of before trusts the recovered one",
        "replica.bootstrap.bootstrap",
        '        return hello.cluster_id == "" or mine == (hello.epoch, hello.epoch_id)\n',
        "        return True\n",
        _BACK + "test_a_folder_of_before_sends_nothing_to_the_recovered_one",
    ),
    one(
        "ADR 40: whoever was left behind goes on",
        _FORMATION,
        "        if self._held is not None and self._is_left_behind(self._held.record):\n",
        "        if False:\n",
        _EPOCHS + "test_folders_of_before_end_when_they_meet_it_and_stay_out_when_they_start_again",
    ),
    one(
        "ADR 40: being left behind is forgotten by the next start",
        _FORMATION,
        "        return self.phase is Phase.LEFT_BEHIND or any(",
        "        return any(",
        _EPOCHS + "test_folders_of_before_end_when_they_meet_it_and_stay_out_when_they_start_again",
    ),
    one(
        "ADR 40: a folder that was left behind forgets by which epoch",
        _FORMATION,
        "held.record._replace(epoch=later.epoch, epoch_id=later.epoch_id))\n",
        "held.record)\n",
        _EPOCHS + "test_a_folder_that_was_left_behind_can_be_gone_on_from_after_all",
    ),
    one(
        "ADR 40: the process of a folder that was left behind lives on",
        _FORMATION,
        "            effects.append(LeftBehind(_left_behind(record)))\n",
        "            pass\n",
        _EPOCHS + "test_folders_of_before_end_when_they_meet_it_and_stay_out_when_they_start_again",
    ),
    one(
        "ADR 40: a new folder believes the lowest broker, of whatever epoch",
        _FORMATION,
        "    return -record.epoch, (",
        "    return 0, (",
        _EPOCHS + "test_a_new_folder_believes_the_later_epoch_also_of_a_higher_broker",
    ),
    one(
        "ADR 40: a new folder joins one of two that were recovered apart",
        _FORMATION,
        "        if apart:\n",
        "        if False:\n",
        _EPOCHS + "test_folders_that_were_recovered_apart_trust_each_other_not_and_a_new_one_joins_neither",
    ),
    one(
        "ADR 40: another cluster's epoch counts",
        "replica.bootstrap.identity",
        "        return same and self.epoch > other.epoch\n",
        "        return self.epoch > other.epoch\n",
        _EPOCHS + "test_another_cluster_s_epoch_says_nothing",
    ),
    one(
        "ADR 40: a replica starts on a folder whose recovery is not complete",
        "replica.node",
        "        refuse_unfinished(self._disk)\n",
        "",
        _POWER,
    ),
    one(
        "ADR 40: the WAL is written before the recovery has begun",
        _EXECUTION,
        "    if found.begun is None:\n        store_recovery(disk, recovery)\n",
        "",
        _POWER,
    ),
    one(
        "ADR 40: what was begun is planned anew",
        _PLAN,
        "    if found.begun is not None:\n        return Plan((), found.begun)\n",
        "",
        _POWER,
    ),
    one(
        "ADR 40: a group is written a second time",
        _EXECUTION,
        "        if known.hard_state.term >= recovery.term:\n            continue\n",
        "",
        "replica.recovery.test_power_loss.test_what_was_written_is_not_written_again",
    ),
    one(
        "ADR 40: the groups keep the voters that are gone",
        _EXECUTION,
        "    wanted = [(EntryKind.CONF, encode_config(Config((member,))))]\n",
        '    wanted = [(EntryKind.NOOP, b"")]\n',
        _LOST + "test_the_terms_of_the_new_epoch_are_above_all_that_the_lost_ones_were_in",
    ),
    one(
        "ADR 40: the tail is not committed",
        _EXECUTION,
        "        state = HardState(recovery.term, member, entries[-1].index)\n",
        "        state = HardState(recovery.term, member, 0)\n",
        "replica.recovery.test_power_loss.test_what_is_written_is_committed_by_the_one_voter",
    ),
    one(
        "ADR 40: suspended groups stay out for ever",
        _EXECUTION,
        "        wal_losses.store(disk, name, Losses(set(), unknown=False).encoded())\n",
        "        pass\n",
        _UNSOUND + "test_a_suspended_group_is_told_and_goes_on_with_what_it_has",
    ),
    one(
        "ADR 40: terms go on where the lost ones were",
        _PLAN,
        "for group in found.groups) + TERMS_SKIPPED\n",
        "for group in found.groups) + 1\n",
        _LOST + "test_the_terms_of_the_new_epoch_are_above_all_that_the_lost_ones_were_in",
    ),
    one(
        "ADR 40: producer ids are given again",
        _PLAN,
        "        next_producer_id=image.next_producer_id + PRODUCER_IDS_SKIPPED,\n",
        "        next_producer_id=image.next_producer_id,\n",
        "replica.recovery.test_plan.test_the_others_are_gone_in_the_record_and_in_the_image_alike",
    ),
    one(
        "ADR 40: a new topic gets the log of one that is unknown here",
        "controller.recovery",
        "        next_group=GroupNo(max(cluster.next_group, command.next_group)),\n",
        "        next_group=cluster.next_group,\n",
        _UNSOUND + "test_a_log_whose_topic_is_unknown_is_told_and_its_number_not_given_again",
    ),
    one(
        "ADR 40: a seat that waits is passed once more",
        _PLAN,
        "    if newest.replica_uuid == UNBOUND:\n        return newest\n",
        "",
        "replica.recovery.test_plan.test_a_seat_that_waits_for_a_folder_already_goes_on_waiting",
    ),
    one(
        "ADR 40: only the image says who is lost",
        _PLAN,
        "    newest = imaged if imaged.is_later(recorded) else recorded\n",
        "    newest = imaged\n",
        "replica.recovery.test_plan.test_a_record_that_knows_more_than_the_image_counts",
    ),
    one(
        "ADR 40: only the record says who is lost",
        _PLAN,
        "    newest = imaged if imaged.is_later(recorded) else recorded\n",
        "    newest = recorded\n",
        "replica.recovery.test_plan.test_an_image_that_knows_more_than_the_record_counts",
    ),
    one(
        "ADR 40: a recovery is proposed",
        "controller.transitions",
        "    if isinstance(command, RecoverCluster):\n",
        "    if False:\n",
        "controller.test_recover_cluster.test_nobody_proposes_it",
    ),
    one(
        "ADR 40: what was accepted is called certain",
        _SURVEY,
        "                certain = end if entry.index <= commit else certain\n",
        "                certain = end\n",
        _LOST + "test_what_was_replaced_was_never_certain",
    ),
    one(
        "ADR 40: offsets are counted from the beginning of the WAL",
        _SURVEY,
        "            if entry.index > meta.index:\n",
        "            if True:\n",
        _UNSOUND + "test_a_group_without_a_state_is_lost_and_the_others_serve",
    ),
    one(
        "ADR 40: a replica of the cluster is given up while it answers",
        "cli.recover",
        "        if answer.presence is Presence.THERE:\n",
        "        if False:\n",
        "cli.test_recover_asks.test_a_replica_that_answers_is_not_given_up",
    ),
    one(
        "ADR 40: a frozen replica is given up",
        "cli.recover",
        "        if answer.presence is Presence.UNKNOWN:\n",
        "        if False:\n",
        "cli.test_recover_asks.test_a_frozen_replica_is_not_given_up",
    ),
    one(
        "ADR 40: any word is the cluster's id",
        "cli.recover",
        "    if cluster_id != found.record.cluster_id:\n",
        "    if not cluster_id:\n",
        "cli.test_recover_asks.test_no_other_word_is_the_cluster_s_id",
    ),
    one(
        "ADR 40: a new folder that is level waits for one that is away",
        "replica.multiraft.reconfiguration",
        "            some = _some_of(present, voters, standings)\n",
        "            some = None\n",
        "replica.multiraft.test_reconfiguration"
        ".test_where_voters_are_only_added_one_that_is_away_does_not_keep_the_others_out",
    ),
)
