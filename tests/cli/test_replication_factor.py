"""`muster cluster replication-factor` against HTTP servers that answer as replicas do."""

import json
from types import SimpleNamespace

import pytest
from muster_coordinator.cli import replication_factor
from muster_coordinator.cli.exits import Exit

from tests.cli.test_cluster_status import replicas, token

__all__ = ["replicas", "token"]
PATH = "/v1/replication-factor"
DONE = {
    "replication_factor": 3,
    "partitions_to_go": 0,
    "moving": 0,
    "controller_voters": [0, 1, 2],
    "controller_voters_to_be": 3,
    "done": True,
    "state": "level",
    "reason": "",
}
GOING = {**DONE, "partitions_to_go": 4, "moving": 2, "controller_voters": [0], "done": False, "reason": "so"}
ANSWER = {"factor": 3, "kept": [], "kept_more": False}


@pytest.fixture
def change(muster, replicas, token):
    """Run the command against replica 0; 1 leads the controller's group."""

    def run(*words: str):
        return muster("cluster", "replication-factor", *words, "--admin", replicas[0].address, "--token-file", token)

    replicas[1].answers[PATH] = dict(DONE)
    return run


def test_the_controllers_leader_is_asked(change, replicas):
    replicas[1].post_answers = [(200, ANSWER)]
    ran = change("3")
    assert (ran.code, ran.out) == (Exit.OK, "every Raft group is to have 3 replicas\n")
    assert replicas[1].posted == [(PATH, {"factor": 3, "topics": [], "all": False, "dry_run": False})]
    assert replicas[0].posted == []


def test_named_topics_and_those_that_keep_more_are_told(change, replicas):
    replicas[1].post_answers = [(200, ANSWER), (200, {**ANSWER, "kept": ["a", "b"], "kept_more": True})]
    assert change("3", "--topics", "orders,payments").out == "orders, payments is to have 3 replicas\n"
    assert replicas[1].posted[0][1]["topics"] == ["orders", "payments"]
    assert "a, b and others keep more replicas" in change("1").err


def test_a_dry_run_shows_the_moves(change, replicas):
    move = {"topic": "t", "partition": 0, "replicas": [0, 1, 2], "copies": True, "reason": "so few"}
    plan = {**ANSWER, "planned": [move], "more": False, "stuck": ["t-1 stays"], "controller_voters_to_be": 3}
    replicas[1].post_answers = [(200, plan), (200, plan)]
    ran = change("3", "--dry-run")
    assert "the controller's group is to have 3 voters" in ran.out
    assert "so few" in ran.out
    assert "t-1 stays" in ran.err
    assert json.loads(change("3", "--dry-run", "-o", "json").out) == plan
    assert replicas[1].posted[0][1]["dry_run"] is True


def test_without_a_number_it_is_shown_what_there_is(change, replicas):
    assert change().out == "new topics have 3 replicas; every group has as many as it is to have\n"
    replicas[1].answers[PATH] = dict(GOING)
    told = (
        "new topics have 3 replicas; 4 partitions to go, 2 are being moved, 1 of 3 vote in the controller's group: so\n"
    )
    assert change().out == told
    assert json.loads(change("-o", "json").out) == GOING
    assert replicas[1].posted == []


def test_it_waits_and_says_for_what(change, replicas, monkeypatch):
    replicas[1].answers[PATH] = dict(GOING)

    def later(_seconds: float) -> None:
        replicas[1].answers[PATH] = dict(DONE)

    monkeypatch.setattr(replication_factor, "time", SimpleNamespace(sleep=later, monotonic=lambda: 0))
    replicas[1].post_answers = [(200, ANSWER)]
    ran = change("3", "--wait", "30")
    assert (ran.code, ran.out.splitlines()[-1]) == (Exit.OK, "all groups have their replicas")
    assert "4 partitions to go" in ran.err


def test_what_is_not_there_in_time_is_told(change, replicas, monkeypatch):
    replicas[1].answers[PATH] = dict(GOING)
    clock = iter((0, 20, 31))
    fake = SimpleNamespace(sleep=lambda _seconds: None, monotonic=lambda: next(clock))
    monkeypatch.setattr(replication_factor, "time", fake)
    ran = change("--wait", "30")
    assert (ran.code, "within 30 s; it goes on" in ran.err) == (Exit.UNREACHABLE, True)


def test_a_refusal_is_told_in_its_words(change, replicas):
    replicas[1].post_answers = [
        (409, {"error": "refused", "message": "5 replicas need as many brokers; 3 can take one"})
    ]
    ran = change("5")
    assert (ran.code, "5 replicas need as many brokers" in ran.err) == (Exit.REFUSED, True)


@pytest.mark.parametrize(
    "words", [("x",), ("--all",), ("--dry-run",), ("3", "--topics", ","), ("3", "--all", "--topics", "a")]
)
def test_what_makes_no_sense_is_not_sent(change, replicas, words):
    assert change(*words).code == Exit.USAGE
    assert replicas[1].posted == []
