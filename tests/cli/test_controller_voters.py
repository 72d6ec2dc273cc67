"""`muster cluster controller-voters` against HTTP servers that answer as replicas do."""

import pytest
from muster_coordinator.cli.exits import Exit

from tests.cli.test_cluster_status import replicas, token

__all__ = ["replicas", "token"]
PATH = "/v1/controller/voters"


@pytest.fixture
def change(muster, replicas, token):
    """Run the command against replica 0, which sends it to the leader of the controller's group, 1."""
    for one in replicas:
        one.answers["/v1/status"]["voters"] = [0, 1, 2]

    def run(*words: str):
        return muster("cluster", "controller-voters", *words, "--admin", replicas[0].address, "--token-file", token)

    return run


def test_the_controllers_leader_is_asked(change, replicas):
    replicas[1].post_answers = [(200, {"voters": [0, 3, 4]})]
    ran = change("0,3,4")
    assert (ran.code, ran.out) == (Exit.OK, "0,3,4 are to vote in the controller's group, instead of 0,1,2\n")
    assert replicas[1].posted == [(PATH, {"voters": [0, 3, 4]})]
    assert replicas[0].posted == []


def test_a_refusal_is_told_in_its_words(change, replicas):
    replicas[1].post_answers = [(409, {"error": "refused", "message": "broker 9 is not registered"})]
    ran = change("0,3,9")
    assert (ran.code, "broker 9 is not registered" in ran.err) == (Exit.REFUSED, True)


@pytest.mark.parametrize("voters", ["", "x", "0,,1", "0;1", "-1"])
def test_what_are_no_ids_is_not_sent(change, replicas, voters):
    assert change(voters).code == Exit.USAGE
    assert replicas[1].posted == []
