"""`muster cluster status` against HTTP servers that answer as replicas do, also when some do not."""

import errno
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn

import pytest
from muster_coordinator.cli.cluster import partition_rows
from muster_coordinator.cli.exits import Exit
from muster_coordinator.cli.output import UNKNOWN

TOKEN = "secret"
NOBODY = "127.0.0.1:1"


def partition(group: int, role: str, term: int, leader: int | None, commit: int, applied: int) -> dict:
    return {
        "group": group,
        "topic": "__consumer_offsets" if group else None,
        "partition": group - 1 if group else None,
        "role": role,
        "term": term,
        "leader": leader,
        "commit": commit,
        "applied": applied,
        "last_index": commit,
        "voters": [0, 1],
        "match": {},
    }


def test_followers_lag_is_what_they_have_yet_to_apply():
    (row,) = partition_rows({0: [partition(1, "leader", 3, 0, 10, 9)], 1: [partition(1, "follower", 3, 0, 8, 7)]})
    assert (row["leader"], row["term"], row["commit"], row["applied"]) == (0, 3, 10, 9)
    assert row["follower_lag"] == ["1:3"]


def test_a_follower_that_does_not_answer_is_unknown_not_zero():
    (row,) = partition_rows({0: [partition(1, "leader", 3, 0, 10, 9)]})
    assert row["follower_lag"] == ["1:unknown"]
    assert row["followers"] == [{"broker": 1, "lag": UNKNOWN}]


def test_an_old_leader_that_does_not_know_its_successor_is_not_believed():
    old, new = partition(1, "leader", 3, 0, 10, 10), partition(1, "leader", 4, 1, 12, 12)
    (row,) = partition_rows({0: [old], 1: [new]})
    assert (row["leader"], row["term"], row["commit"]) == (1, 4, 12)


def test_a_partition_whose_leader_does_not_answer_has_a_leader_but_no_progress():
    (row,) = partition_rows({1: [partition(1, "follower", 3, 0, 8, 7)]})
    assert (row["leader"], row["commit"], row["follower_lag"]) == (0, UNKNOWN, UNKNOWN)


class Replica:
    """An HTTP server that answers as broker `number` would."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.answers: dict[str, dict] = {}
        self.posted: list[tuple[str, dict]] = []
        self.post_answers: list[tuple[int, dict]] = []
        """What the next POSTs are answered."""
        self.got: list[str] = []
        """Paths of the GETs so far."""
        replica = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                replica.got.append(self.path)
                allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
                body = json.dumps(replica.answers.get(self.path, {}) if allowed else {"error": "unauthorized"}).encode()
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                assert self.headers["Authorization"] == f"Bearer {TOKEN}"
                asked = self.rfile.read(int(self.headers["Content-Length"]))
                replica.posted.append((self.path, json.loads(asked)))
                status, document = replica.post_answers.pop(0)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    """Two replicas of a cluster of two; broker 1 leads everything."""
    both = [Replica(0), Replica(1)]
    brokers = [
        {"broker": one.number, "alive": True, "draining": False, "admin": one.address, "endpoints": []} for one in both
    ]
    for one in both:
        one.answers["/v1/status"] = {
            "version": "0.1.0",
            "broker": one.number,
            "cluster_id": "c1",
            "ready": one.number == 1,
            "not_ready": [] if one.number == 1 else ["catching up"],
            "draining": False,
            "leaderships": 2 * one.number,
            "controller": {"leader": 1, "term": 7},
            "feature_level": 1,
            "brokers": brokers,
        }
        role = "leader" if one.number == 1 else "follower"
        applied = 20 if one.number == 1 else 15
        one.answers["/v1/partitions"] = {
            "partitions": [partition(0, role, 7, 1, 20, 20), partition(1, role, 7, 1, 20, applied)]
        }
    yield both
    for one in both:
        one.stop()


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


def test_all_replicas_are_asked_and_shown(muster, replicas, token):
    ran = muster("cluster", "status", "--admin", replicas[0].address, "--token-file", token)
    assert ran.code == Exit.OK
    assert "cluster c1, controller 1 in term 7" in ran.out
    assert "not ready" in ran.out
    assert "catching up" in ran.out
    assert "__consumer_offsets          0       1     7      20       20  0:5" in ran.out


def test_damaged_segments_are_remarked_and_a_release_that_does_not_tell_them_is_none_the_worse(muster, replicas, token):
    file = {"file": "00000000000000000040.log", "damage": "its CRC", "repair": "is being fetched"}
    replicas[1].answers["/v1/partitions"]["partitions"][1]["damaged"] = [file]
    ran = muster("cluster", "status", "--admin", replicas[0].address, "--token-file", token, "-o", "json")
    rows = {row["broker"]: row["remarks"] for row in json.loads(ran.out)["replicas"]}
    assert rows == {0: ["catching up"], 1: ["1 damaged segments: __consumer_offsets-0/00000000000000000040.log"]}


def test_groups_that_take_a_new_folder_in_are_remarked(muster, replicas, token):
    replicas[1].answers["/v1/status"]["groups_to_change"] = 3
    replicas[0].answers["/v1/status"]["groups_to_change"] = 0
    ran = muster("cluster", "status", "--admin", replicas[0].address, "--token-file", token, "-o", "json")
    rows = {row["broker"]: row["remarks"] for row in json.loads(ran.out)["replicas"]}
    assert rows == {0: ["catching up"], 1: ["leads 3 Raft groups whose members are being changed"]}


def test_copies_that_wait_for_room_are_remarked(muster, replicas, token):
    waiting = [{"raft_group": n, "partition": f"t-{n}", "reason": "the disk is low"} for n in range(3)]
    replicas[1].answers["/v1/status"]["copies_without_room"] = waiting
    replicas[0].answers["/v1/status"]["copies_without_room"] = waiting[:1]
    ran = muster("cluster", "status", "--admin", replicas[0].address, "--token-file", token, "-o", "json")
    rows = {row["broker"]: row["remarks"] for row in json.loads(ran.out)["replicas"]}
    assert rows == {
        0: ["catching up", "lacks room for a copy of t-0"],
        1: ["lacks room for a copy of t-0 and of 2 more"],
    }


def test_a_low_disk_is_remarked(muster, replicas, token):
    replicas[1].answers["/v1/status"]["disk"] = {"free_bytes": 77, "low": True, "full": False}
    replicas[0].answers["/v1/status"]["disk"] = {"free_bytes": 10**9, "low": False, "full": False}
    ran = muster("cluster", "status", "--admin", replicas[0].address, "--token-file", token, "-o", "json")
    rows = {row["broker"]: row["remarks"] for row in json.loads(ran.out)["replicas"]}
    assert rows == {0: ["catching up"], 1: ["the disk is low: 77 bytes are free"]}


def test_a_replica_that_was_replaced_is_remarked_until_its_new_folder_has_come(muster, replicas, token):
    for one in replicas:
        brokers = one.answers["/v1/status"]["brokers"]
        brokers[0]["replica_uuid"], brokers[1]["replica_uuid"] = None, "ab" * 16
        brokers[0]["admin"] = NOBODY
    ran = muster("cluster", "status", "--admin", replicas[1].address, "--token-file", token, "-o", "json")
    rows = {row["broker"]: row["remarks"] for row in json.loads(ran.out)["replicas"]}
    assert rows == {0: ["waits for a new data folder"], 1: []}


def test_a_broker_that_is_to_leave_is_remarked_whether_it_answers_or_not(muster, replicas, token):
    for one in replicas:
        for broker in one.answers["/v1/status"]["brokers"]:
            broker["departing"] = True
        one.answers["/v1/status"]["brokers"][0]["admin"] = NOBODY
    ran = muster("cluster", "status", "--admin", replicas[1].address, "--token-file", token, "-o", "json")
    rows = {row["broker"]: row["remarks"] for row in json.loads(ran.out)["replicas"]}
    assert rows == {0: ["is to leave (muster cluster balance)"], 1: ["is to leave (muster cluster balance)"]}


def test_problems_only(muster, replicas, token):
    command = ["cluster", "status", "--admin", replicas[0].address, "--token-file", token, "-o", "json", "--problems"]
    ran = muster(*command)
    assert [row["group"] for row in json.loads(ran.out)["partitions"]] == [1]


def test_a_silent_replica_is_unknown_and_the_exit_code_says_so(muster, replicas, token):
    for one in replicas:
        one.answers["/v1/status"]["brokers"][0]["admin"] = NOBODY
    admin = f"{NOBODY},{replicas[1].address}"
    ran = muster("cluster", "status", "--admin", admin, "--token-file", token)
    assert ran.code == Exit.INCOMPLETE
    assert "replica 0 is unknown" in ran.err
    assert "0:unknown" in ran.out


def test_a_wrong_token_is_told(muster, replicas, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    ran = muster("cluster", "status", "--admin", replicas[0].address, "--token-file", str(wrong))
    assert (ran.code, ran.err) == (Exit.REFUSED, f"muster: {replicas[0].address} rejects the token\n")


def test_nobody_answers(muster, token):
    ran = muster("cluster", "status", "--admin", NOBODY, "--token-file", token)
    assert (ran.code, ran.err) == (Exit.UNREACHABLE, f"muster: {NOBODY} does not answer: Connection refused\n")


def test_nobody_answers_at_the_address_that_is_asked_unless_another_is_named(muster, token, monkeypatch):
    def refused(*_: object, **__: object) -> NoReturn:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", refused)  # somebody else may listen there
    ran = muster("cluster", "status", "--token-file", token)
    assert ran.code == Exit.UNREACHABLE
    assert ran.err == (
        "muster: 127.0.0.1:8081 does not answer: Connection refused: --admin names another address, "
        "--dev the folder of a muster dev\n"
    )


def test_the_folder_of_muster_dev_names_addresses_and_token(muster, replicas, tmp_path):
    (tmp_path / "admin-token").write_text(TOKEN)
    for one in replicas:
        folder = tmp_path / f"replica-{one.number}"
        folder.mkdir()
        (folder / "server.properties").write_text(f"muster.admin.listener={one.address}\n")
    assert muster("cluster", "status", "--dev", str(tmp_path)).code == Exit.OK
    assert muster("cluster", "status", "--dev", str(tmp_path / "nothing")).code == Exit.USAGE


def test_readers_that_stand_still_are_a_remark(muster, replicas, token):
    told = {"ids": 1, "ongoing": 1, "prepared": 0, "markers_late": 0, "partitions_held_back": 1}
    words = ("cluster", "status", "--admin", replicas[1].address, "--token-file", token, "-o", "json")
    for open_ms, late, expected in (
        (None, 0, []),
        (899_999, 0, []),
        (960_000, 0, ["a last stable offset has stood still for 16 min"]),
        (None, 2, ["2 partitions have lacked markers of transactions for long"]),
    ):
        replicas[1].answers["/v1/status"]["transactions"] = {**told, "oldest_open_ms": open_ms, "markers_late": late}
        shown = json.loads(muster(*words).out)["replicas"]
        assert [row["remarks"] for row in shown if row["broker"] == 1] == [expected]
