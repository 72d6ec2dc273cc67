"""What log cleaning keeps, broken on purpose, one rule at a time (ADR 66)."""

from tests.mutants.rule_mutant import one

CLEANING_MUTANTS = (
    one(
        "a tombstone is dropped before its horizon",
        "topics.cleaning.batches",
        "    passed = horizon_ms is not None and horizon_ms <= keeps.now_ms\n",
        "    passed = horizon_ms is not None\n",
        "topics.test_cleaning.test_a_tombstone_stays_from_its_first_cleaning_until_its_horizon",
    ),
    one(
        "the cleaner goes past the last stable offset",
        "topics.cleaning.plan",
        "        if segment.next_offset > stable_offset or (dirty and young):\n",
        "        if dirty and young:\n",
        "topics.test_cleaning_plan.test_no_segment_reaches_above_the_last_stable_offset",
    ),
    one(
        "a marker may go while data of its transaction is there",
        "topics.cleaning.transactions",
        "        return found is None or not found[1]\n",
        "        return found is None or found[1]\n",
        "topics.test_cleaning.test_a_marker_goes_at_its_horizon_once_all_data_of_its_transaction_is_gone",
    ),
    one(
        "a marker of committed data may go while it is there",
        "topics.cleaning.transactions",
        "            return not seen\n",
        "            return True\n",
        "topics.test_cleaning.test_a_marker_of_committed_data_that_stays_stays",
    ),
    one(
        "a marker is dropped before its horizon",
        "topics.cleaning.batches",
        "    if may_go and (passed or not header.is_control):\n",
        "    if may_go:\n",
        "topics.test_cleaning.test_a_marker_goes_at_its_horizon_once_all_data_of_its_transaction_is_gone",
    ),
    one(
        "records of aborted transactions stay",
        "topics.cleaning.batches",
        "    if may_go and (passed or not header.is_control):\n",
        "    if may_go and passed:\n",
        "topics.test_cleaning.test_records_of_aborted_transactions_go_and_hide_no_earlier_value",
    ),
    one(
        "the next transaction is taken for one that was aborted before the walk",
        "topics.cleaning.transactions",
        "            if aborted.last_offset >= header.base_offset:\n",
        "            if aborted.last_offset >= 0:\n",
        "topics.test_cleaning.test_a_walk_that_begins_behind_an_aborted_transaction_does_not_take_the_producers_next_one_"
        "for_it",
    ),
    one(
        "an aborted transaction is lost from the index of a cleaned segment",
        "storage.cleaning",
        "                self.aborted.add(aborted)\n",
        "                pass\n",
        "storage.test_cleaning_transactions.test_the_index_that_is_left_has_each_aborted_transaction_of_which_a_batch_"
        "is_left",
    ),
    one(
        "what is open at the end of a cleaned segment is not known to the next",
        "replica.maintenance.cleaning_round",
        "        self._opened = some.opened.pairs()\n",
        "        self._opened = ()\n",
        "storage.test_cleaning_transactions.test_the_indexes_of_cleaned_segments_are_those_that_a_walk_makes_of_them",
    ),
    one(
        "the round is not told of aborted transactions",
        "storage.cleaning",
        "    round_.add_aborted(AbortedTransaction(",
        "    list(AbortedTransaction(",
        "storage.test_cleaning_transactions.test_with_many_rounds_all_of_a_transaction_goes_its_marker_at_last",
    ),
    one(
        "records of aborted transactions hide earlier values",
        "topics.cleaning.rounds",
        "        if not goes and not header.is_control and header.count:\n",
        "        if not header.is_control and header.count:\n",
        "topics.test_cleaning.test_records_of_aborted_transactions_go_and_hide_no_earlier_value",
    ),
    one(
        "a removed run of two epochs is one batch",
        "topics.cleaning.batches",
        "        if run.leader_epoch != header.leader_epoch or delta > EMPTY_SPAN_MAX:\n",
        "        if delta > EMPTY_SPAN_MAX:\n",
        "topics.test_cleaning.test_a_removed_run_leaves_one_empty_batch_for_each_epoch",
    ),
    one(
        "a live producer's last batch goes",
        "topics.cleaning.batches",
        "        stays = header.next_offset - 1 == last.last_offset\n",
        "        stays = False\n",
        "topics.test_cleaning.test_the_last_batch_of_a_live_producer_stays_as_a_header",
    ),
    one(
        "own files are mixed with a leader's cleaned ones",
        "replica.snapshots.install_own",
        "        if number in self._distrusted or offer.cleaned:\n",
        "        if number in self._distrusted:\n",
        "replica.maintenance.test_cleaner.test_no_own_segment_is_mixed_with_cleaned_ones_unseen",
    ),
    one(
        "a log is clean although a segment is another",
        "storage.cleaned",
        "        if sizes.get(segment.base) != segment.size:\n",
        "        if segment.base not in sizes:\n",
        "storage.test_cleaning_files.test_what_is_clean_is_believed_as_far_as_the_segments_are_those_of_then",
    ),
    one(
        "an internal log is cleaned before a checkpoint covers it",
        "replica.maintenance.cleaner",
        "        if covered is None and isinstance(log, TopicLog):\n",
        "        if covered is None:\n",
        "replica.maintenance.test_internal_logs."
        "test_only_what_a_checkpoint_of_this_life_covers_is_cleaned_and_one_is_asked_for",
    ),
    one(
        "an internal log is cleaned in a cluster of the release before",
        "replica.maintenance.internal_logs",
        "    return settings.internal_compacts and image is not None and image.feature_level >= MEMBERS_LEVEL\n",
        "    return settings.internal_compacts and image is not None\n",
        "replica.maintenance.test_internal_logs.test_a_cluster_of_a_release_before_cuts_as_before_and_cleans_nothing",
    ),
    one(
        "an internal log that is cleaned is cut too",
        "replica.maintenance.retention",
        "        if newest is None or compacted(self._settings, self._group_manager.image):\n",
        "        if newest is None:\n",
        "replica.maintenance.test_internal_logs.test_the_last_commit_of_each_group_stays_and_the_size_is_bounded",
    ),
    one(
        "a deleted group's own records have no tombstones",
        "groups.offsets.tombstones",
        "    return ((encode_candidate_key(group), None), (encode_rebalance_key(group), None), "
        "(encode_group_key(group), None))\n",
        "    return ((encode_group_key(group), None),)\n",
        "groups.log.test_cleaned_offsets_log.test_an_own_record_of_a_deleted_group_is_gone_before_what_deleted_it",
    ),
    one(
        "history is cleaned although the partition is not too large",
        "replica.maintenance.internal_logs",
        "    wanted_bytes = max(excess_bytes, clean_bytes + 1) if excess_bytes > 0 else 0\n",
        "    wanted_bytes = max(excess_bytes, clean_bytes + 1)\n",
        "replica.maintenance.test_internal_logs."
        "test_young_history_stays_whatever_its_age_until_it_is_large_and_old_history_goes",
    ),
)
