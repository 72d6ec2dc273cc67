"""Answers of the admin API as views, where the numbers have a meaning of their own."""

from muster_operator.admin.decode import group_facts


def test_a_group_that_nobody_ever_joined_has_no_generation() -> None:
    """-1, of a simple consumer that only commits: the definition refuses it, and with it the whole status."""
    assert group_facts({"generation": -1}) == (None, None, None)
    assert group_facts({"generation": 0}) == (0, None, None)
    assert group_facts({"generation": 3, "last_rebalance_ms": 7, "last_rebalance_reason": "x"}) == (3, 7, "x")
