"""`muster recover` on the folder that is left of a cluster: what it says, whom it asks, what it refuses (ADR 40)."""

import json
import socket
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.cli.exits import Exit
from muster_coordinator.cli.recover_report import compared
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.identity import Phase, load_cluster, store_cluster
from muster_coordinator.replica.bootstrap.recovery_file import load_recovery
from muster_coordinator.replica.multiraft.payloads import Hello
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.runtime.folder import FolderLock

from tests.cli.conftest import Muster
from tests.cli.peers_at_addresses import greeting, listening
from tests.cli.ran import Ran
from tests.replica.recovery.lost_majority import SURVIVOR, lose_majority, produce
from tests.replica.serving_cluster import commit_everywhere, formed

UNUSED = ("127.0.0.1", 1)
"""Nobody listens there."""


@cache
def folder_that_is_left() -> tuple[dict[str, bytes], dict[int, bytes]]:
    """Its files, and the uuids of all folders of the cluster."""
    cluster = formed()
    commit_everywhere(cluster, 7)
    for number in range(5):
        produce(cluster, b"record %d" % number)
    cluster.converge()
    uuids = {int(broker): node.identity.replica_uuid for broker, node in cluster.nodes.items()}
    lose_majority(cluster)
    disk = cluster.disks[SURVIVOR]
    return {name: disk.content(name) for name in disk.files()}, uuids


class Left:
    """The folder that is left of a cluster of three, and its configuration."""

    def __init__(self, folder: Path) -> None:
        files, self.uuids = folder_that_is_left()
        self.data = folder / "data"
        for name, content in files.items():
            path = self.data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.config = folder / "muster.properties"
        self.peers()
        record = load_cluster(self.disk())[1]
        assert record is not None
        self.cluster_id = record.cluster_id

    def disk(self) -> OsDisk:
        return OsDisk(str(self.data))

    def peers(self, one: tuple[str, int] = UNUSED, two: tuple[str, int] = UNUSED) -> None:
        voters = f"0@127.0.0.1:1,1@{one[0]}:{one[1]},2@{two[0]}:{two[1]}"
        self.config.write_text(
            f"node.id=0\nlog.dirs={self.data}\ncontroller.quorum.voters={voters}\noffsets.topic.num.partitions=3\n"
        )

    def content(self) -> dict[str, bytes]:
        files = (path for path in self.data.rglob("*") if path.is_file() and path.name != ".lock")
        return {str(path.relative_to(self.data)): path.read_bytes() for path in files}

    def epoch(self) -> int:
        record = load_cluster(self.disk())[1]
        assert record is not None
        return record.epoch


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def run(muster: Muster, left: Left, *words: str, stdin: str = "") -> Ran:
    return muster("recover", "--config", str(left.config), *words, stdin=stdin)


# What it says.


def test_it_says_what_is_here_and_what_may_be_lost_and_changes_nothing(muster: Muster, left: Left) -> None:
    before = left.content()
    said = run(muster, left)
    assert said.code == 0, said.err
    assert f"cluster {left.cluster_id}, epoch 0, feature level 3" in said.out
    assert left.uuids[0].hex() in said.out
    row = next(line.split() for line in said.out.splitlines() if "t-0" in line.split())
    assert row[0:2] == ["4", "t-0"]
    assert row[6] == "5", "the end of the log"
    assert " ".join(row[8:]) == "records from offset 5 on"
    assert "changes behind entry" in said.out
    assert "whatever was acknowledged behind END is lost" in said.err
    assert "the folders of 1, 2 are gone for good" in said.out
    assert left.content() == before


def test_as_json_it_is_what_another_folder_is_compared_with(muster: Muster, left: Left, tmp_path: Path) -> None:
    document = json.loads(run(muster, left, "-o", "json").out)
    assert (document["cluster_id"], document["broker"], document["epoch"]) == (left.cluster_id, 0, 0)
    topic = next(row for row in document["groups"] if row["partition"] == "t-0")
    assert (topic["log_end_offset"], topic["newest"]) == (5, "2023-11-14T22:13:20.000Z")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document | {"broker": 1}))
    assert run(muster, left, "--compare", str(other)).out == "both folders have the same of every group\n"
    topic["last_index"] += 3
    topic["log_end_offset"] += 3
    other.write_text(json.dumps(document | {"broker": 1}))
    said = run(muster, left, "--compare", str(other), "-o", "json")
    assert json.loads(said.out) == [
        {
            "group": 4,
            "partition": "t-0",
            "here": f"entry {topic['last_index'] - 3} of term {topic['last_term']}",
            "there": f"entry {topic['last_index']} of term {topic['last_term']}",
            "more": "broker 1",
            "records": 3,
        }
    ]


def document(*rows: tuple[int, int, int], broker: int = 0, **changes: object) -> dict[str, Any]:
    groups = [
        {
            "group": number,
            "partition": f"t-{number}",
            "last_term": term,
            "last_index": index,
            "log_end_offset": 10 * index,
            "trouble": "",
        }
        for number, (term, index, _) in enumerate(rows)
    ]
    return {"cluster_id": "c", "epoch": 0, "broker": broker, "groups": groups, **changes}


def test_the_folder_with_the_later_term_has_more_then_the_longer_one() -> None:
    here = document((3, 9, 0), (4, 2, 0), (4, 7, 0), (5, 5, 0))
    there = document((4, 2, 0), (3, 9, 0), (4, 6, 0), (5, 5, 0), broker=1)
    rows = compared(here, there)
    assert [(row["group"], row["more"], row["records"]) for row in rows] == [
        (0, "broker 1", 70),
        (1, "broker 0", 70),
        (2, "broker 0", 10),
    ]


def test_what_only_one_folder_has_or_can_read_is_more() -> None:
    here, there = document((3, 9, 0)), document((3, 9, 0), (2, 2, 0), broker=1)
    assert [(row["group"], row["more"]) for row in compared(here, there)] == [(1, "broker 1")]
    here["groups"][0]["trouble"] = "its checkpoint is damaged"
    here["groups"][0]["log_end_offset"] = None
    assert compared(here, there)[0]["more"] == "broker 1"
    assert compared(here, there)[0]["records"] is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cluster_id": "other"}', '"text"', "17"])
def test_a_file_that_is_no_such_output_is_refused(muster: Muster, left: Left, tmp_path: Path, text: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(text)
    assert run(muster, left, "--compare", str(other)).code == Exit.USAGE


def test_a_folder_of_another_cluster_or_epoch_is_not_compared(muster: Muster, left: Left, tmp_path: Path) -> None:
    found = json.loads(run(muster, left, "-o", "json").out)
    other = tmp_path / "other.json"
    for change in ({"cluster_id": "another"}, {"epoch": 1}):
        other.write_text(json.dumps(found | change))
        said = run(muster, left, "--compare", str(other))
        assert (said.code, next(iter(change)) in said.err) == (Exit.USAGE, True)
    said = run(muster, left, "--compare", str(other), "--execute")
    assert (said.code, "only looks" in said.err) == (Exit.USAGE, True)


# What it does.


def test_with_the_cluster_s_id_it_is_done_and_a_second_time_it_is_the_next_epoch(muster: Muster, left: Left) -> None:
    said = run(muster, left, "--execute", stdin=f"{left.cluster_id}\n")
    assert said.code == 0, said.err
    assert "Type the cluster's id to go on" in said.err
    assert "broker 1 at 127.0.0.1:1: no answer" in said.err
    assert "is in epoch 1" in said.out
    assert left.epoch() == 1
    assert load_recovery(left.disk()) is None
    said = run(muster, left, "--execute", "--cluster-id", left.cluster_id)
    assert (said.code, left.epoch()) == (0, 2)


@pytest.mark.parametrize("typed", ["", "\n", "yes\n", "another\n"])
def test_without_the_cluster_s_id_nothing_is_changed(muster: Muster, left: Left, typed: str) -> None:
    before = left.content()
    said = run(muster, left, "--execute", stdin=typed)
    assert (said.code, "nothing was changed" in said.err) == (Exit.REFUSED, True)
    assert left.content() == before
    assert run(muster, left, "--execute", "--cluster-id", left.cluster_id[:-1]).code == Exit.REFUSED
    assert left.content() == before


def test_one_that_was_begun_is_said_and_completed(muster: Muster, left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster_coordinator.replica.recovery import execution

    with monkeypatch.context() as broken:
        broken.setattr(execution, "store_cluster", lambda *_: (_ for _ in ()).throw(OSError("the disk is gone")))
        said = run(muster, left, "--execute", "--cluster-id", left.cluster_id)
    assert (said.code, "the disk is gone" in said.err) == (Exit.REFUSED, True)
    assert "--execute completes it" in run(muster, left).out
    assert run(muster, left, "--execute", "--cluster-id", left.cluster_id).code == 0
    assert left.epoch() == 1


# Whom it asks.


def execute(muster: Muster, left: Left) -> Ran:
    return run(muster, left, "--execute", "--cluster-id", left.cluster_id)


def test_a_replica_of_the_cluster_that_is_there_is_not_given_up(muster: Muster, left: Left) -> None:
    hello = Hello(BrokerId(2), left.uuids[2], 9, left.cluster_id)
    before = left.content()
    with listening(greeting(hello)) as address:
        left.peers(two=address)
        said = execute(muster, left)
    assert (said.code, "a cluster must not be split" in said.err) == (Exit.REFUSED, True)
    assert left.uuids[2].hex() in said.err
    assert left.content() == before


def test_a_replica_that_lost_its_record_or_has_another_folder_counts_by_what_is_known_of_it(
    muster: Muster, left: Left
) -> None:
    for hello in (
        Hello(BrokerId(1), left.uuids[1], 9, ""),  # the folder that we know, before it has formed
        Hello(BrokerId(1), b"n" * 16, 9, left.cluster_id, 3, b"e" * 16),  # a folder that we have not heard of
    ):
        with listening(greeting(hello)) as address:
            left.peers(one=address)
            assert "a cluster must not be split" in execute(muster, left).err
    assert left.epoch() == 0


def test_an_empty_folder_that_waits_is_no_reason_to_stop(muster: Muster, left: Left) -> None:
    hello = Hello(BrokerId(1), b"n" * 16, 1, "")
    with listening(greeting(hello)) as address:
        left.peers(one=address)
        said = execute(muster, left)
    assert said.code == 0, said.err
    assert "an empty folder, or one of another cluster" in said.err
    assert left.epoch() == 1


def test_who_does_not_say_who_it_is_may_be_a_frozen_replica(
    muster: Muster, left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    from muster_coordinator.cli import recover_peers

    monkeypatch.setattr(recover_peers, "TIMEOUT_S", 0.2)
    held: list[socket.socket] = []
    for answer in (held.append, lambda one: one.close(), lambda one: (one.sendall(b"HTTP/1.1 400 \r\n"), one.close())):
        with listening(answer) as address:
            left.peers(one=address)
            said = execute(muster, left)
        assert (said.code, "does not say who it is" in said.err) == (Exit.REFUSED, True)
    assert len(held) == recover_peers.TRIES
    for connection in held:
        connection.close()
    assert left.epoch() == 0


# What it refuses.


def test_a_running_replica_is_refused(muster: Muster, left: Left) -> None:
    lock = FolderLock(left.data)
    said = run(muster, left)
    lock.release()
    assert (said.code, "in use by another process" in said.err) == (Exit.REFUSED, True)


def test_a_folder_of_another_broker_or_of_no_cluster_is_refused(muster: Muster, left: Left, tmp_path: Path) -> None:
    left.config.write_text(left.config.read_text().replace("node.id=0", "node.id=1"))
    said = run(muster, left)
    assert (said.code, "belongs to broker 0" in said.err) == (Exit.REFUSED, True)
    (tmp_path / "empty").mkdir()
    left.config.write_text(left.config.read_text().replace(str(left.data), str(tmp_path / "empty")))
    said = run(muster, left)
    assert (said.code, "belongs to no cluster yet" in said.err) == (Exit.REFUSED, True)
    left.config.write_text(left.config.read_text().replace("empty", "absent"))
    assert run(muster, left).code == Exit.USAGE


def test_a_wal_that_is_gone_is_refused_and_not_begun_anew(muster: Muster, left: Left) -> None:
    for file in (left.data / "wal-topics").glob("*.wal"):
        file.unlink()
    said = run(muster, left)
    assert (said.code, "wal-topics is gone" in said.err) == (Exit.REFUSED, True)
    assert not list((left.data / "wal-topics").glob("*.wal"))


def test_why_nothing_can_be_recovered_is_said_with_what_is_here(muster: Muster, left: Left) -> None:
    record = load_cluster(left.disk())[1]
    assert record is not None
    stranger = record.voters[0]._replace(replica_uuid=b"?" * 16)
    store_cluster(left.disk(), Phase.FORMED, record._replace(voters=(stranger, *record.voters[1:])))
    said = run(muster, left, "--execute", "--cluster-id", left.cluster_id)
    assert (said.code, "does not name this data folder" in said.err) == (Exit.REFUSED, True)
    assert "t-0" in said.out, "what it holds is still told"


def test_a_folder_that_was_left_behind_says_so_and_takes_the_epoch_back(muster: Muster, left: Left) -> None:
    record = load_cluster(left.disk())[1]
    assert record is not None
    store_cluster(left.disk(), Phase.LEFT_BEHIND, record._replace(epoch=4, epoch_id=b"x" * 16))
    assert "gives up all that was done in that epoch" in run(muster, left).err
    assert run(muster, left, "--execute", "--cluster-id", left.cluster_id).code == 0
    assert (load_cluster(left.disk())[0], left.epoch()) == (Phase.FORMED, 5)


def test_a_configuration_that_is_none_is_told(muster: Muster, tmp_path: Path) -> None:
    assert muster("recover", "--config", str(tmp_path / "absent")).code == Exit.USAGE
