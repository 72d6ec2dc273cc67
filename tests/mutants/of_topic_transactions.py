"""Mutants of transactions in topic partitions; `of_rules` has them all."""

from tests.mutants.rule_mutant import one

_COURSE = "replica.partitions.test_transactions_any_course.test_one_course"
_PRODUCERS = "topics.test_transactional_producers."

TOPIC_TRANSACTION_MUTANTS = (
    one(
        "the last stable offset ignores an open transaction",
        "topics.partition",
        "        return self._next if first_open == NO_OFFSET else max(first_open, self._log_start)\n",
        "        return self._next\n",
        _COURSE,
    ),
    one(
        "a marker is judged by its producer's id only",
        "topics.transactions",
        "    if state is None:\n        return MarkerStanding.NEXT\n",
        "    return MarkerStanding.NEXT\n",
        _COURSE,
    ),
    one(
        "a coordinator that is none any more ends transactions",
        "topics.transactions",
        "    if coordinator_epoch < state.coordinator_epoch:\n",
        "    if False:\n",
        _COURSE,
    ),
    one(
        "a checkpoint forgets the epochs of coordinators",
        "records.producers",
        "            if coordinator_epoch != NO_COORDINATOR_EPOCH:\n",
        "            if False:\n",
        _PRODUCERS + "test_followers_and_checkpoints_know_open_transactions_and_coordinators",
    ),
    one(
        "a marker in flight does not count yet",
        "topics.partition",
        "        standing = judge_marker(self._in_flight.state(producer_id), marker)\n",
        "        standing = judge_marker(self._table.get(producer_id), marker)\n",
        _PRODUCERS + "test_a_coordinator_that_is_none_any_more_ends_nothing",
    ),
    one(
        "a verification outlives the marker",
        "topics.partition",
        "        self._in_flight.add(self._last_token, parse_header(batch), marker.end.coordinator_epoch)\n"
        "        self._verifications.end(producer_id)\n",
        "        self._in_flight.add(self._last_token, parse_header(batch), marker.end.coordinator_epoch)\n",
        _PRODUCERS + "test_what_was_verified_before_a_marker_begins_nothing_after_it",
    ),
    one(
        "a walked segment forgets what was open before it",
        "storage.transaction_index",
        "        opened = OpenTransactions(() if section is None else section.opened)\n",
        "        opened = OpenTransactions()\n",
        "storage.test_aborted_transactions.test_files_that_go_while_the_log_is_open_are_made_again_from_the_segments",
    ),
    one(
        "a search for aborted transactions ends with its segment",
        "storage.transaction_index",
        "            if not NONE_OPEN < kept.oldest_open < end:\n",
        "            if True:\n",
        _COURSE,
    ),
)
