"""What decides whether a group behind a hole in a WAL is whole, broken on purpose, one condition at a time (ADR 33).

Rule 31: who lost part of its log, or its vote, counts for nothing. Rule 23: what a checkpoint does to a log.
"""

from tests.mutants.rule_mutant import one

HOLE_MUTANTS = (
    one(
        "r31 a batch counts that leads nowhere behind a hole",
        "storage.wal_hole",
        "        if (end.number, end.chain) in anchors:\n",
        "        if True:\n",
        "storage.test_wal_hole.test_bytes_that_a_client_stores_are_never_taken_for_batches_behind_a_hole",
    ),
    one(
        "r31 batches behind a hole need not be chained",
        "storage.wal_hole",
        "        if crc32c(memoryview(data)[start:at], end.chain) != following.chain:\n",
        "        if False:\n",
        "storage.test_wal_hole_histories.test_a_batch_behind_a_hole_counts_only_if_it_is_whole_itself",
    ),
    one(
        "r31 the first batch behind a hole counts although it is damaged",
        "storage.wal_hole",
        "        if not record_is_sound(data[position : position + RECORD_HEADER_BYTES + length], seed):\n",
        "        if False:\n",
        "storage.test_wal_hole_histories.test_a_batch_behind_a_hole_counts_only_if_it_is_whole_itself",
    ),
    one(
        "r31 an entry proves what is before it whatever its term",
        "storage.wal_hole",
        "    return term in (log.term_at(index), log.term_at(index - 1))\n",
        "    return log.term_at(index - 1) is not None\n",
        "storage.test_wal_hole_histories.test_an_entry_of_another_term_than_the_one_before_it_proves_nothing",
    ),
    one(
        "r31 who is silent behind a hole has lost nothing",
        "storage.wal_hole",
        "            if not (_is_complete(log) and (behind.before is None or not behind.silent)):\n",
        "            if not _is_complete(log):\n",
        "storage.test_wal_hole_histories.test_a_group_that_is_silent_behind_the_hole_may_have_lost_entries_there",
    ),
    one(
        "r31 what was proven before a second hole is proven behind it",
        "storage.wal_hole",
        "            behind.silent, behind.seen, behind.voted, behind.flushed = True, False, False, False\n",
        "            behind.seen = behind.voted = behind.flushed = False\n",
        "storage.test_wal_hole_histories.test_a_second_hole_is_a_hole",
    ),
    one(
        "r31 what a start took back is believed again behind a second hole",
        "storage.wal_hole",
        "            _take_back(log, behind)\n",
        "",
        "storage.test_wal_hole_histories.test_what_a_start_took_back_behind_a_hole_stays_back_behind_the_next",
    ),
    one(
        "r31 a log is whole although it ends before what it says is committed",
        "storage.wal_hole",
        "        and max(written.hard_state.commit, written.recovery_point.applied) <= log.last\n",
        "",
        "storage.test_wal_hole_histories.test_a_commit_index_beyond_the_log_is_a_loss",
    ),
    one(
        "r31 a vote in a hole is no loss",
        "storage.wal_hole",
        "            if group in cut or not behind.voted:\n",
        "            if group in cut:\n",
        "storage.test_wal_hole_histories.test_a_group_whose_hard_state_is_not_written_again_may_have_lost_a_vote",
    ),
    one(
        "r31 a term in a hole is taken again",
        "storage.wal_hole",
        "        behind.term = max(behind.term, term)\n",
        "",
        "storage.test_wal_hole_histories."
        "test_the_term_is_that_of_the_newest_entry_at_least_whether_the_entry_counts_or_not",
    ),
    one(
        "r31 what was committed since counts before the hole too",
        "storage.wal_hole",
        "    log.written.hard_state = kept._replace(commit=max(min(behind.commit, log.last), index))\n",
        "    log.written.hard_state = kept._replace(commit=max(min(kept.commit, log.last), index))\n",
        "storage.test_wal_hole_histories.test_what_was_committed_behind_the_hole_is_not_what_was_there_before_it",
    ),
    one(
        "r31 a recovery point of entries behind the hole counts",
        "storage.wal_hole",
        " if index <= recovery_point.applied <= proven),\n",
        " if index <= recovery_point.applied),\n",
        "storage.test_wal_hole_histories.test_no_recovery_point_counts_that_is_of_entries_behind_the_hole",
    ),
    one(
        "r31 entries stay that a checkpoint does not lead to",
        "storage.wal_hole",
        "    return log.first == index + 1 and (known == (index, term) or log.term_at(log.first) == term)\n",
        "    return log.first == index + 1\n",
        "storage.test_wal_hole_histories."
        "test_entries_that_a_checkpoint_from_behind_the_hole_does_not_lead_to_are_let_go",
    ),
    one(
        "r23 what a checkpoint superseded comes back when the file before is gone",
        "storage.wal_recovery",
        "    if kind != ANEW and index < log.first and (log.term_at(log.first) or term) >= term:\n",
        "    if index < log.first:\n",
        "storage.test_wal.test_what_a_checkpoint_superseded_stays_superseded_when_the_file_before_is_gone",
    ),
    one(
        "r23 an install behind a hole is no end of what was there",
        "storage.wal",
        "                writer.add(CHECKPOINT, group, *checkpoint, kind=ANEW if at in self._anew else KEEPS)\n",
        "                writer.add(CHECKPOINT, group, *checkpoint, kind=KEEPS)\n",
        "storage.test_wal.test_what_a_checkpoint_superseded_stays_superseded_when_the_file_before_is_gone",
    ),
    one(
        "r31 a group of which nothing is left has lost nothing",
        "storage.wal_losses",
        "        return group in self.groups or (self.unknown and self.whole is not None and group "
        "not in self.whole)\n",
        "        return group in self.groups\n",
        "storage.test_wal_hole_histories."
        "test_a_group_that_begins_anew_while_some_are_unknown_is_suspended_at_the_next_start_too",
    ),
    one(
        "r31 who begins anew is whole by the next start",
        "storage.wal_losses",
        "            self.whole = whole if before is None else whole & before\n",
        "            self.whole = whole\n",
        "storage.test_wal_hole_histories.test_a_second_loss_does_not_make_anybody_whole",
    ),
    one(
        "r31 a hole hides no groups",
        "storage.wal_hole",
        "        self.met_any = self.unknown = True\n",
        "        self.met_any = True\n",
        "storage.test_wal_hole.test_a_hole_is_judged_once",
    ),
    one(
        "r31 a loss is written down after it is cut",
        "storage.wal_recovery",
        "                lost(scan.groups if everything else suspended, scan.groups, everything or "
        "scan.holes.unknown)\n"
        "            _cut_tail(file, data, end, scan, header)\n",
        "                _cut_tail(file, data, end, scan, header)\n"
        "                file.sync()\n"
        "                lost(scan.groups if everything else suspended, scan.groups, everything or "
        "scan.holes.unknown)\n"
        "            _cut_tail(file, data, end, scan, header)\n",
        "storage.test_wal_hole.test_a_start_that_ends_while_it_cuts_what_was_synced_finds_the_loss_again",
    ),
    one(
        "r31 a hole between two files is none",
        "storage.wal_recovery",
        "        scan.hole(file_name(sequence - 1), scan.end, header.first_batch - 1)\n",
        "",
        "storage.test_wal_hole_histories.test_a_hole_at_the_end_of_a_file_is_one",
    ),
    one(
        "r31 a pass that a hole interrupted is complete",
        "storage.wal_recovery",
        "            if kind == COMPLETES_AT_ONCE or (kind == COMPLETES and not scan.broken):\n",
        "            if kind in (COMPLETES, COMPLETES_AT_ONCE):\n",
        "storage.test_wal_hole_histories.test_a_pass_that_a_hole_interrupted_is_not_complete",
    ),
    one(
        "r31 a file says that it has all states and has lost them",
        "storage.wal_recovery",
        "                header, write_again, scan.whole = header._replace(spread=True), True, False\n",
        "                pass\n",
        "storage.test_wal_hole_histories.test_a_file_that_lost_its_first_batch_does_not_say_that_it_has_all_states",
    ),
    one(
        "r31 damage hides that files are missing",
        "storage.wal_recovery",
        "                _states_missing(scan, folder, numbers[0])\n                everything = True\n",
        "                _states_missing(scan, folder, numbers[0])\n",
        "storage.test_wal_hole_histories.test_where_no_file_has_all_states_everybody_is_suspended",
    ),
    one(
        "r31 a damaged header hides that the file before is lost",
        "storage.wal_recovery",
        "    begins = scan.unnumbered and end.start == FILE_HEADER_BYTES\n",
        "    begins = scan.batch == 0 and end.start == FILE_HEADER_BYTES\n",
        "storage.test_wal_hole_histories."
        "test_a_file_of_a_damaged_header_does_not_hide_that_all_of_the_file_before_is_missing",
    ),
    one(
        "r31 what goes on from before a hole is not written anew",
        "storage.wal",
        "        for group in sorted(self._cut):\n",
        "        for group in ():\n",
        "storage.test_wal_hole.test_a_hole_is_judged_once",
    ),
    one(
        "r31 new groups are suspended for good where some may have been lost",
        "replica.group_manager",
        "        self._know_all()\n",
        "",
        "replica.test_wal_holes.test_a_loss_of_which_no_group_is_suspended_is_over_once_all_groups_are_known",
    ),
    one(
        "r31 segments are cut at a recovery point from before their checkpoint",
        "replica.group_manager",
        "            if recovery.recovery_point.applied < recovery.meta.index:\n",
        "            if False:\n",
        "replica.test_wal_holes.test_a_checkpoint_whose_recovery_point_is_lost_is_no_reason_to_cut_the_segments",
    ),
    one(
        "r31 the only replica's files are cut before anybody accepts it",
        "replica.snapshots.group_making",
        '            trouble = ALONE if wal_writer.wal.is_suspended(number) and _is_alone(known, beginning) else ""\n',
        '            trouble = ""\n',
        "replica.test_wal_holes.test_what_the_only_replica_has_lost_is_neither_served_nor_cut_until_it_is_accepted",
    ),
    one(
        "r31 a loss is accepted where others can make good for it",
        "replica.accepted_losses",
        "    if len(record.voters) != 1 or len(bound) > 1:\n",
        "    if False:\n",
        "replica.test_wal_holes.test_nothing_is_accepted_where_others_can_make_good_for_it",
    ),
)
