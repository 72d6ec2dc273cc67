"""`muster cluster replace` against HTTP servers that answer as replicas do: what is shown, asked and sent."""

import pytest
from muster_coordinator.cli.exits import Exit

from tests.cli.test_cluster_status import NOBODY, replicas, token

__all__ = ["replicas", "token"]
FOLDER = "0b" * 16
PATH = "/v1/replicas/0/replace"
DONE = (200, {"broker": 0, "gone": FOLDER, "binding": 1})


@pytest.fixture
def replace(muster, replicas, token):
    """Run the command against replica 0, which sends it to the leader of the controller's group, 1."""
    for one in replicas:
        status = one.answers["/v1/status"]
        status["voters"] = [0, 1, 2]
        for broker in status["brokers"]:
            broker["replica_uuid"] = FOLDER if broker["broker"] == 0 else "0c" * 16

    def run(*words: str, stdin: str = ""):
        access = ("--admin", replicas[0].address, "--token-file", token)
        return muster("cluster", "replace", *words, *access, stdin=stdin)

    return run


@pytest.mark.parametrize("stdin", ["y\n", "yes\n"])
def test_the_folder_is_shown_and_declared_gone_by_its_uuid(replace, replicas, stdin):
    replicas[1].post_answers = [DONE]
    ran = replace("0", stdin=stdin)
    assert (ran.code, ran.out.splitlines()[0]) == (Exit.OK, f"replica 0 is bound to data folder {FOLDER}")
    assert ran.out.splitlines()[-1] == f"data folder {FOLDER} is gone for good; replica 0 waits for a new one"
    assert replicas[1].posted == [(PATH, {"gone": FOLDER})]
    assert replicas[0].posted == []


@pytest.mark.parametrize("bound", [FOLDER, "0d" * 16, None])
def test_a_folder_that_is_named_is_declared_gone_without_a_question_whatever_is_bound(replace, replicas, bound):
    """A script that repeats it after a time-out means the folder that was lost, not the one that has come since."""
    for one in replicas:
        one.answers["/v1/status"]["brokers"][0]["replica_uuid"] = bound
    replicas[1].post_answers = [DONE]
    ran = replace("0", "--folder", FOLDER)
    assert (ran.code, ran.out) == (Exit.OK, f"data folder {FOLDER} of replica 0 is gone for good\n")
    assert replicas[1].posted == [(PATH, {"gone": FOLDER})]


@pytest.mark.parametrize("folder", ["", "0b", "0B" * 16, "0b" * 17, "zz" * 16, FOLDER + "\n"])
def test_what_is_no_folder_is_not_sent(replace, replicas, folder):
    assert replace("0", "--folder", folder).code == Exit.USAGE
    assert replicas[1].posted == []


@pytest.mark.parametrize("stdin", ["", "n\n", "\n", "maybe\n"])
def test_without_a_yes_nothing_is_sent(replace, replicas, stdin):
    ran = replace("0", stdin=stdin)
    assert ran.code == Exit.REFUSED
    assert "not confirmed; nothing was changed" in ran.err
    assert FOLDER in ran.out
    assert replicas[1].posted == []


def test_a_leadership_that_moved_is_followed_but_not_for_ever(replace, replicas):
    there = (421, {"error": "misdirected", "message": "m", "coordinator": 0, "admin": replicas[0].address})
    back = (421, {"error": "misdirected", "message": "m", "coordinator": 1, "admin": replicas[1].address})
    replicas[1].post_answers, replicas[0].post_answers = [there], [DONE]
    assert replace("0", "--folder", FOLDER).code == Exit.OK
    replicas[1].post_answers, replicas[0].post_answers = [there] * 9, [back] * 9
    ran = replace("0", "--folder", FOLDER)
    assert (ran.code, "moves" in ran.err) == (Exit.UNREACHABLE, True)


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, Exit.REFUSED), (404, Exit.NOT_FOUND), (409, Exit.REFUSED), (500, Exit.REFUSED), (503, Exit.UNREACHABLE)],
)
def test_a_refusal_is_told_in_the_replicas_words(replace, replicas, status, code):
    replicas[1].post_answers = [(status, {"error": "e", "message": "it is connected, so it is not lost"})]
    ran = replace("0", "--folder", FOLDER)
    assert (ran.code, ran.err) == (code, "muster: it is connected, so it is not lost\n")


def test_a_replica_that_waits_already_is_left_alone(replace, replicas):
    for one in replicas:
        one.answers["/v1/status"]["brokers"][0]["replica_uuid"] = None
    ran = replace("0")
    assert (ran.code, "waits for a new data folder already" in ran.out) == (Exit.OK, True)
    assert replicas[1].posted == []


def test_a_replica_that_has_never_registered_is_named_by_its_folder(replace, replicas):
    for one in replicas:
        one.answers["/v1/status"]["brokers"] = [b for b in one.answers["/v1/status"]["brokers"] if b["broker"] != 0]
        one.answers["/v1/status"]["voters"] = [0, 1]
    ran = replace("0")
    assert (ran.code, "--folder" in ran.err, replicas[1].posted) == (Exit.NOT_FOUND, True, [])
    replicas[1].post_answers = [DONE]
    assert replace("0", "--folder", FOLDER).code == Exit.OK
    assert replicas[1].posted == [(PATH, {"gone": FOLDER})]


def test_an_id_that_nobody_has(replace):
    ran = replace("7", "--folder", FOLDER)
    assert (ran.code, "[0, 1, 2]" in ran.err) == (Exit.NOT_FOUND, True)
    assert replace("-1").code == replace("one").code == Exit.USAGE


def test_replicas_of_a_release_that_cannot(replace, replicas):
    del replicas[0].answers["/v1/status"]["brokers"][0]["replica_uuid"]  # the list is one for both
    ran = replace("0", "--folder", FOLDER)
    assert (ran.code, "0.1.0, which cannot" in ran.err) == (Exit.REFUSED, True)


def test_without_a_leader_nothing_is_sent(replace, replicas):
    replicas[0].answers["/v1/status"]["controller"] = {"leader": None, "term": 7}
    assert replace("0", "--folder", FOLDER).code == Exit.UNREACHABLE
    replicas[0].answers["/v1/status"]["controller"] = {"leader": 1, "term": 7}
    replicas[0].answers["/v1/status"]["brokers"][1]["admin"] = NOBODY
    assert replace("0", "--folder", FOLDER).code == Exit.UNREACHABLE
