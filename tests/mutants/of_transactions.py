"""Mutants of what groups do about transactions; `of_rules` has them all."""

from tests.mutants.rule_mutant import one

_COMMITS = "groups.offsets.test_txn_commits."

TRANSACTION_MUTANTS = (
    one(
        "txn a pending offset is shown early",
        "groups.log.replay",
        "            if header.producer_id == NO_PRODUCER_ID:\n",
        "            state.offsets.put(group, topic, partition, row)\n"
        "            if header.producer_id != NO_PRODUCER_ID:\n"
        "                state.pending_offsets.put(header.producer_id, Partition(group, topic, partition), row)\n"
        "            elif header.producer_id == NO_PRODUCER_ID:\n",
        _COMMITS + "test_offsets_become_visible_with_their_marker_and_never_before",
    ),
    one(
        "txn a marker brings back what a later commit has replaced",
        "groups.log.replay",
        "        if committed is None or record_offset_of(row) > record_offset_of(committed):\n",
        "        if True:\n",
        _COMMITS + "test_a_plain_commit_over_a_pending_one_stays",
    ),
    one(
        "txn an aborted one is committed",
        "groups.log.replay",
        "        if not marker.commit:\n            continue\n",
        "",
        _COMMITS + "test_an_aborted_one_leaves_nothing",
    ),
    one(
        "txn only applied markers fence",
        "groups.live.producers",
        "        after = self._after.get(producer_id)\n        if after:\n",
        "        after = self._after.get(producer_id)\n        if after and False:\n",
        _COMMITS + "test_zombies_are_fenced_by_epochs_applied_and_in_flight",
    ),
    one(
        "txn what the coordinator said outlives the marker",
        "groups.live.producers",
        "        if write.control:\n            self._verifications.pop(write.producer_id, None)\n",
        "",
        _COMMITS + "test_a_word_from_before_the_marker_allows_nothing_after_it",
    ),
    one(
        "txn a first write needs nobody's word",
        "groups.offsets.transactions",
        "    if not core.producers.verified(request.producer_id, request.verification):\n",
        "    if False:\n",
        _COMMITS + "test_the_first_write_needs_the_coordinators_word_and_the_next_ones_do_not",
    ),
    one(
        "txn a marker is done before it is in the log",
        "groups.offsets.transactions",
        "        if again and not core.producers.in_flight(marker.producer_id):\n",
        "        if again:\n",
        _COMMITS + "test_a_marker_that_comes_again_is_not_done_before_it_is_in_the_log",
    ),
    one(
        "txn the marker of one transaction ends the next",
        "groups.offsets.transactions",
        "        again = strict and marker.producer_epoch == standing.epoch and not standing.open\n",
        "        again = strict and marker.producer_epoch == standing.epoch\n",
        _COMMITS + "test_markers_that_come_again",
    ),
)
