"""Mutants of the transaction coordinator; `of_rules` has them all."""

from tests.mutants.rule_mutant import one

_RULES = "transactions.test_rules."

COORDINATOR_MUTANTS = (
    one(
        "tc a marker is sent before the decision is applied",
        "transactions.coordinator",
        "        self._append(now, flight, ((key, value),))\n",
        "        self._append(now, flight, ((key, value),))\n"
        "        if change.transaction.state in PREPARED:\n"
        "            self._send_markers(now, transactional_id, change.transaction)\n",
        _RULES + "test_no_marker_is_sent_before_the_decision_is_applied",
    ),
    one(
        "tc markers of a decision that was refused are sent",
        "transactions.coordinator",
        "        for ticket in flight.everyone():\n"
        "            self._effects.append(Reply(ticket, Answer(code), proven=True))\n"
        "        if flight",
        "        for name in flight.ids if flight.change else ():\n"
        "            self._follow_up(now, name, flight.change)\n"
        "        for ticket in flight.everyone():\n"
        "            self._effects.append(Reply(ticket, Answer(code), proven=True))\n"
        "        if flight",
        _RULES + "test_a_decision_that_was_refused_sends_none",
    ),
    one(
        "tc one marker completes a transaction",
        "transactions.coordinator",
        "            if not left:\n                self._complete(now, transactional_id)\n",
        "            self._complete(now, transactional_id)\n",
        _RULES + "test_it_is_complete_when_the_last_marker_is_written",
    ),
    one(
        "tc a producer is known by its id only",
        "transactions.adding",
        "    if known.producer_epoch != request.producer_epoch:\n        return Code.PRODUCER_FENCED\n",
        "",
        _RULES + "test_an_older_epoch_of_the_same_id_is_fenced",
    ),
    one(
        "tc an end by an older epoch is heard",
        "transactions.ending",
        "    if not mine:\n        return Code.PRODUCER_FENCED\n",
        "",
        _RULES + "test_an_older_epoch_of_the_same_id_is_fenced",
    ),
    one(
        "tc who ran out of time goes on with its epoch",
        "transactions.ending",
        "        producer_epoch=known.producer_epoch + 1,\n"
        "        last_update_ms=now_ms,\n"
        "        next_producer_id=NO_PRODUCER,\n",
        "        last_update_ms=now_ms,\n        next_producer_id=NO_PRODUCER,\n",
        _RULES + "test_who_ran_out_of_time_is_fenced_by_the_abort",
    ),
    one(
        "tc a repeated end is told that the other one was done",
        "transactions.ending",
        "        return Known(known.producer_id, known.producer_epoch) if same else Code.INVALID_TXN_STATE\n",
        "        return Known(known.producer_id, known.producer_epoch)\n",
        _RULES + "test_the_end_that_comes_again_is_told_what_became_of_it_and_the_other_end_is_refused",
    ),
    one(
        "tc a zombie goes on after an error",
        "transactions.initialising",
        "        return known.producer_epoch\n    return None\n",
        "        return known.producer_epoch\n    return known.producer_epoch + 1\n",
        _RULES + "test_who_goes_on_after_an_error_must_be_the_newest_one",
    ),
    one(
        "tc coordinators all have the same epoch",
        "transactions.coordinator",
        "            marker = marker_of(known, self._term)\n",
        "            marker = marker_of(known, 0)\n",
        _RULES + "test_markers_of_the_next_coordinator_have_a_later_epoch",
    ),
    one(
        "tc a late marker completes the next transaction",
        "transactions.coordinator",
        " and producer == (known.producer_id, known.producer_epoch):\n",
        ":\n",
        _RULES + "test_a_late_marker_of_one_transaction_completes_not_the_next",
    ),
    one(
        "tc an id with an open transaction expires",
        "transactions.expiry",
        "            if known is not None and known.state in AT_REST and known.last_update_ms <= old_ms:\n",
        "            if known is not None and known.last_update_ms <= old_ms:\n",
        _RULES + "test_an_id_with_an_open_transaction_does_not_expire",
    ),
    one(
        "tc a transaction of version 2 ends with its epoch",
        "transactions.ending",
        "        producer_epoch=known.producer_epoch + 1,\n"
        "        last_update_ms=now_ms,\n"
        "        next_producer_id=request.fresh_producer_id if known.exhausted else NO_PRODUCER,\n",
        "        last_update_ms=now_ms,\n"
        "        next_producer_id=request.fresh_producer_id if known.exhausted else NO_PRODUCER,\n",
        _RULES + "test_each_transaction_of_version_2_ends_with_the_next_epoch",
    ),
    one(
        "tc an end whose fate is unknown is told as refused",
        "transactions.coordinator",
        "                self._effects.append(Reply(ticket, Answer(Code.NOT_COORDINATOR), proven=True))\n",
        "                self._effects.append(Reply(ticket, Answer(Code.INVALID_TXN_STATE), proven=True))\n",
        _RULES + "test_an_end_whose_fate_is_unknown_is_to_be_asked_for_again",
    ),
    one(
        "tc an end is judged by a state that is about to change",
        "transactions.coordinator",
        "        if flying and (isinstance(judged, Change | Known | NeedsProducerId)"
        " or judged is Code.INVALID_TXN_STATE):\n",
        "        if flying and isinstance(judged, Change | Known | NeedsProducerId):\n",
        _RULES + "test_an_end_is_not_judged_by_a_state_that_is_about_to_change",
    ),
)
