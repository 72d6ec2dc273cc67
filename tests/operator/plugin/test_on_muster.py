"""`kubectl muster` over real coordinators: what was to run in a pod runs here, against a cluster of processes."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_operator.plugin.main import app
from typer.testing import CliRunner

from tests.cluster import MusterCluster, wait_until
from tests.operator.plugin.fake_api import CLUSTERS, GROUPS, PODS, Server, cluster, group, pod

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(170)]

MUSTER = [sys.executable, "-m", "muster_coordinator.cli.main"]
TOPIC, GROUP, RECORDS, PARTITIONS = "orders", "orders-v2", 60, 3


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterCluster]:
    with MusterCluster(tmp_path_factory.mktemp("muster") / "cluster", partitions=3) as found:
        yield found


@pytest.fixture
def shop(serving: Server, running: MusterCluster) -> Server:
    """The pod's addresses and token file stand for those of the processes."""
    here = {
        "--bootstrap-server=localhost:9092": f"--bootstrap-server={running.bootstrap}",
        "--admin=localhost:8081": f"--dev={running.folder}",
    }

    def run(command: list[str]) -> tuple[int, str, str]:
        words = [here.get(one, one) for one in command[1:] if not one.startswith("--token-file=")]
        done = subprocess.run([*MUSTER, *words], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    serving.answers = run
    serving.put(GROUPS, group())
    serving.put(CLUSTERS, cluster())
    serving.put(PODS, pod("main-0", component="coordinator", instance="main"))
    return serving


def typed(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def muster(running: MusterCluster, *words: str, given: str = "") -> None:
    command = [*MUSTER, *words, f"--bootstrap-server={running.bootstrap}"]
    subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=True)


NO_SUCH_GROUP = 3
"""Of `muster group` (docs/cli.md)."""


def offsets() -> list[int]:
    """Committed, by partition; none before the group is there."""
    done = typed("lag", "cg/orders", "-o", "json")
    if done.exit_code == NO_SUCH_GROUP:
        assert "does not exist" in done.output
        return []
    assert done.exit_code == 0, done.output
    return [one["current_offset"] or 0 for one in json.loads(done.stdout)]


def test_reset_of_a_live_and_of_a_stopped_group(shop: Server, running: MusterCluster) -> None:
    muster(running, "topic", "create", TOPIC, f"--partitions={PARTITIONS}")
    muster(running, "produce", TOPIC, given="".join(f"v{n}\n" for n in range(RECORDS)))
    consume = [*MUSTER, "consume", TOPIC, "-g", GROUP, "--from-beginning", f"--bootstrap-server={running.bootstrap}"]
    everything = ("reset", "cg/orders", "--all-topics", "--to-earliest")
    with subprocess.Popen(consume, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as consumer:
        try:
            wait_until("everything is committed", lambda: sum(offsets()) == RECORDS, 60, every=0.5)
            refused = typed(*everything, "--execute")
            assert refused.exit_code == 1
            assert "stop its consumers first" in refused.output
            assert sum(offsets()) == RECORDS
        finally:
            consumer.terminate()
    stood = offsets()
    dry = typed(*everything, "-o", "json")
    assert dry.exit_code == 0, dry.output
    assert {one["new_offset"] for one in json.loads(dry.stdout)} == {0}
    assert offsets() == stood, "a dry run changes nothing"
    assert typed(*everything, "--execute").exit_code == 0
    assert offsets() == [0] * PARTITIONS
    one = typed("reset", "cg/orders", "--topic", f"{TOPIC}:1", "--to-latest", "--execute")
    assert one.exit_code == 0, one.output
    assert offsets() == [0, stood[1], 0]
    assert typed("reset", "cg/orders", "--topic", f"{TOPIC}:1", "--shift-by", "-2", "--execute").exit_code == 0
    assert offsets() == [0, stood[1] - 2, 0]
    assert typed("reset", "cg/orders", "--topic", "nowhere", "--to-latest").exit_code == 3


def test_a_report_has_the_coordinators_own_words(shop: Server, running: MusterCluster, tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    typed("report", "--file", str(path))
    with tarfile.open(path) as archive:
        (name,) = [one for one in archive.getnames() if one.endswith("coordinators/main-0.json")]
        opened = archive.extractfile(name)
        assert opened is not None
        assert [one["state"] for one in json.loads(opened.read())["replicas"]] == ["ready"] * 3
