"""Mutants of our ACLs in front of an existing Kafka; `of_rules` has them all."""

from tests.mutants.rule_mutant import one

_VERDICTS = "upstream.rights.test_verdicts."

RIGHTS_MUTANTS = (
    one(
        "a session of Fetch outlives the right to what is in it",
        "upstream.rights.fetched",
        "    if request.session_id != NO_SESSION:\n",
        "    if False:\n",
        _VERDICTS + "test_there_are_no_sessions_of_fetch",
    ),
    one(
        "everybody sees every topic",
        "upstream.rights.metadata",
        "return rights.sees(Operation.DESCRIBE, topic(name))\n",
        "return True\n",
        _VERDICTS + "test_a_question_for_all_topics_is_answered_with_ones_own",
    ),
    one(
        "a question about nobody's topics asks for all of them",
        "upstream.rights.metadata",
        "None if all_topics else message_of(kept)",
        "message_of(kept) or None",
        _VERDICTS + "test_a_question_that_names_topics_of_others_goes_on_without_them",
    ),
    one(
        "what is denied is left without an answer",
        "upstream.rights.listed",
        "    told = [how.denied(one) for one in denied]\n",
        "    told = []\n",
        _VERDICTS + "test_a_config_is_a_topics_a_groups_or_the_clusters",
    ),
    one(
        "a denied batch that wants no answer is let go",
        "upstream.rights.produced",
        "    if not request.acks and (",
        "    if False and (",
        _VERDICTS + "test_what_wants_no_answer_and_is_denied_ends_the_connection",
    ),
    one(
        "a transaction takes some of its partitions",
        "upstream.rights.whole",
        "        if not denied:\n            return AS_IT_IS\n        codes",
        "        if len(denied) < len(topics):\n            return AS_IT_IS\n        codes",
        _VERDICTS + "test_partitions_are_added_to_a_transaction_all_or_none",
    ),
)
