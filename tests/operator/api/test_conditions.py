"""Reasons and condition types: words that the API accepts, each documented, none twice."""

import re

from muster_operator.api.conditions import ClusterCondition, GroupCondition, Reason


def test_words_are_camel_case_and_documented_in_a_sentence() -> None:
    for words in (ClusterCondition, GroupCondition, Reason):
        for word in words:
            assert re.fullmatch(r"[A-Z][A-Za-z]+", word.value), word
            assert word.text.endswith("."), word
            assert word.name == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word.value).upper().replace(
                "STATEFUL_SET", "STATEFULSET"
            )


def test_a_word_is_its_text_for_json() -> None:
    assert f"{Reason.ALL_READY}" == "AllReady" == Reason.ALL_READY
    assert Reason("AllReady") is Reason.ALL_READY


def test_every_condition_says_ready_progressing_degraded_for_both_kinds() -> None:
    for words in (ClusterCondition, GroupCondition):
        assert {"Ready", "Progressing", "Degraded", "Paused"} <= {word.value for word in words}
