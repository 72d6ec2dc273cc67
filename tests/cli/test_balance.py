"""`muster cluster balance` and `decommission` against HTTP servers that answer as replicas do."""

import json
import threading

import pytest
from muster_coordinator.cli import balance
from muster_coordinator.cli.exits import Exit

from tests.cli.test_cluster_status import replicas, token
from tests.cluster import wait_until

__all__ = ["replicas", "token"]
MOVE = {"topic": "orders", "partition": 3, "replicas": [1, 4, 2], "copies": True, "reason": "broker 0 is to leave"}
PLAN = {"state": "quiet", "reason": "", "paused": False, "moving": 0, "planned": [], "more": False, "stuck": []}
PAUSE, LEAVE = "/v1/balancer", "/v1/replicas/4/decommission"


@pytest.fixture
def run(muster, replicas, token):
    """Run a command of `muster cluster` against replica 0; 1 leads the controller's group and has the plan."""
    replicas[1].answers["/v1/balancer"] = dict(PLAN)
    for one in replicas:
        one.answers["/v1/status"]["broker"] = one.number

    def run(*words: str):
        return muster("cluster", *words, "--admin", replicas[0].address, "--token-file", token)

    return run


def test_the_plan_of_the_controllers_leader_is_shown_with_what_it_waits_for(run, replicas):
    replicas[1].answers["/v1/balancer"].update(
        reason="broker 2 is not connected", moving=1, planned=[MOVE], more=True, stuck=["t-0 stays on broker 0: why"]
    )
    ran = run("balance")
    assert ran.code == Exit.OK
    first, *rows = ran.out.splitlines()
    assert first == "balancer quiet: broker 2 is not connected; 1 partitions are being moved"
    assert rows[0].split() == ["TOPIC", "PARTITION", "REPLICAS", "REASON"]
    assert rows[1].split(maxsplit=3) == ["orders", "3", "1,4,2", "broker 0 is to leave"]
    assert ran.err.splitlines() == [
        "muster: t-0 stays on broker 0: why",
        "muster: these are the first 1 moves; there are more",
    ]
    ran = run("balance", "--dry-run")
    assert ran.out.splitlines() == rows


def test_a_level_cluster_says_so(run, replicas):
    replicas[1].answers["/v1/balancer"]["state"] = "level"
    assert run("balance").out.splitlines() == [
        "balancer level; 0 partitions are being moved",
        "nothing is to be moved: brokers are level",
    ]


def test_programs_get_the_document(run, replicas):
    replicas[1].answers["/v1/balancer"]["planned"] = [MOVE]
    assert json.loads(run("balance", "-o", "json").out) == replicas[1].answers["/v1/balancer"]


def test_what_weights_are_known_and_why_they_move_nothing_is_shown(run, replicas):
    """A value that nobody has told is no 0. A replica of the release before tells nothing of weights."""
    held = {"broker": 0, "replicas": 7, "preferred": 2, "bytes": 2**63, "led_bytes_per_second": None}
    replicas[1].answers["/v1/balancer"].update(
        state="level",
        weights={
            "bytes": {"decision": "kept", "reason": "brokers 0 and 1 differ"},
            "load": None,
            "brokers": [held],
            "exchanges": 0,
        },
    )
    _, said, header, row, _ = run("balance").out.splitlines()
    assert said == "bytes kept: brokers 0 and 1 differ"
    assert header.split() == ["BROKER", "REPLICAS", "PREFERRED", "BYTES", "LED-BYTES/S"]
    assert row.split() == ["0", "7", "2", str(2**63), "unknown"]


@pytest.mark.parametrize(("word", "paused"), [("--pause", True), ("--resume", False)])
def test_it_is_paused_and_resumed_through_whichever_replica_answers(run, replicas, word, paused):
    replicas[0].post_answers = [(200, {"paused": paused})]
    ran = run("balance", word)
    assert (ran.code, ran.out) == (Exit.OK, "the balancer is paused\n" if paused else "the balancer goes on\n")
    assert replicas[0].posted == [(PAUSE, {"paused": paused})]


def test_one_thing_at_a_time(run, replicas):
    for words in (("--pause", "--resume"), ("--pause", "--dry-run")):
        assert run("balance", *words).code == Exit.USAGE
    assert replicas[0].posted == []


def test_a_broker_is_told_to_leave_and_to_stay(run, replicas):
    replicas[0].post_answers = [(200, {"broker": 4, "departing": True}), (200, {"broker": 4, "departing": False})]
    ran = run("decommission", "4")
    assert (ran.code, ran.out) == (
        Exit.OK,
        "broker 4 is to leave: its replicas are moved away, then it is unregistered\n",
    )
    assert run("decommission", "4", "--cancel").out.startswith("broker 4 is to stay")
    assert replicas[0].posted == [(LEAVE, {"departing": True}), (LEAVE, {"departing": False})]


@pytest.mark.parametrize(
    ("status", "code"), [(400, Exit.REFUSED), (404, Exit.NOT_FOUND), (409, Exit.REFUSED), (503, Exit.UNREACHABLE)]
)
def test_a_refusal_is_told_in_the_replicas_words(run, replicas, status, code):
    replicas[0].post_answers = [(status, {"error": "e", "message": "broker 4 votes in the controller's group"})] * 2
    for words in (("decommission", "4"), ("balance", "--pause")):
        ran = run(*words)
        assert (ran.code, ran.err) == (code, "muster: broker 4 votes in the controller's group\n")


def test_who_waits_is_told_what_is_to_go_and_when_it_has_left(run, replicas, monkeypatch):
    """Here broker 1 leaves, as the list of brokers says; what it waits for is told when it changes."""
    monkeypatch.setattr(balance, "LOOK_S", 0.05)
    replicas[0].post_answers = [(200, {"broker": 1, "departing": True})]
    replicas[1].answers["/v1/balancer"].update(state="moving", planned=[MOVE, MOVE])
    brokers = replicas[0].answers["/v1/status"]["brokers"]

    def leave() -> None:
        """Once it has been asked what is to go: on a slow machine that is late."""
        wait_until("the balancer was asked", lambda: "/v1/balancer" in replicas[1].got, 25)
        for one in replicas:
            one.answers["/v1/status"]["brokers"] = brokers[:1]

    leaves = threading.Thread(target=leave)
    leaves.start()
    try:
        ran = run("decommission", "1", "--wait", "30")
    finally:
        leaves.join()
    assert (ran.code, ran.err) == (Exit.OK, "muster: moving, 2 moves to go\n")
    assert ran.out.splitlines()[-1] == "broker 1 has left; end its process and remove its data folder"


def test_the_others_are_asked_whether_it_has_left(run, replicas, monkeypatch):
    """The command goes to the broker that leaves: nobody tells that one anything any more, so it lists itself for
    ever."""
    monkeypatch.setattr(balance, "LOOK_S", 0.05)
    replicas[0].post_answers = [(200, {"broker": 0, "departing": True})]
    replicas[1].answers["/v1/status"]["brokers"] = replicas[1].answers["/v1/status"]["brokers"][1:]
    ran = run("decommission", "0", "--wait", "5")
    assert (ran.code, "has left" in ran.out) == (Exit.OK, True)


def test_who_waits_too_short_is_told_that_it_goes_on(run, replicas, monkeypatch):
    monkeypatch.setattr(balance, "LOOK_S", 0.2)
    replicas[0].post_answers = [(200, {"broker": 1, "departing": True})]
    ran = run("decommission", "1", "--wait", "1")
    assert ran.code == Exit.UNREACHABLE
    assert ran.err.splitlines()[-1] == "muster: broker 1 has not left within 1 s; it goes on"


def test_the_leadership_is_followed_but_not_for_ever(run, replicas):
    replicas[0].answers["/v1/status"]["controller"] = {"leader": None, "term": 7}
    assert run("balance").code == Exit.UNREACHABLE
