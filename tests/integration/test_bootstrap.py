"""Decisions 13 and 15 on real processes: who may join a formed cluster, and who is told why not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_many_raft_groups import create_topic
from tests.raw_client import RawClient
from tests.raw_group import NONE, commit, fetch, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def start_refused(config: Path) -> tuple[int, str]:
    """Exit code and output of a replica that must not start."""
    done = subprocess.run(
        [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def data_of(cluster: MusterCluster, replica: int) -> Path:
    return cluster.folder / f"replica-{replica}" / "data"


def reasons_of(cluster: MusterCluster, replica: int) -> list[str]:
    """Why a replica is not ready; empty while its admin port is not open yet."""
    try:
        code, status = cluster.admin(replica, "/v1/status")
    except OSError:
        return []
    return list(status["not_ready"]) if code == 200 else []


def test_an_emptied_replica_stays_out_and_says_so(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "emptied", partitions=10) as cluster:
        create_topic(cluster, "kept")
        _, host, port = find_coordinator(cluster.bootstrap, "group")
        with RawClient(host, port) as client:
            assert commit(client, "group", "kept", {0: 7}) == {0: NONE}
        cluster.kill(0)
        shutil.rmtree(data_of(cluster, 0))
        cluster.start_replica(0, wait_ready=False)
        wait_until("it answers", lambda: cluster.probe(0, "/livez") == 200, 30)

        def says_so() -> bool:
            return any("empt" in reason.lower() for reason in reasons_of(cluster, 0))

        wait_until("it says that it was emptied", says_so, 15)
        assert cluster.probe(0, "/readyz") == 503
        broker, host, port = find_coordinator(f"127.0.0.1:{cluster.client_port(1)}", "group")
        assert broker != 0
        with RawClient(host, port) as client:
            assert fetch(client, "group", "kept", [0])[0][0] == 7
            assert commit(client, "group", "kept", {0: 8}) == {0: NONE}
        _, body = cluster.admin(1, "/v1/partitions")
        assert 0 not in {p["leader"] for p in body["partitions"]}, "an emptied replica leads"
        assert not (data_of(cluster, 0) / "cluster").exists() or says_so(), "it formed a cluster"


def test_two_emptied_replicas_cannot_form_a_cluster_beside_the_third(tmp_path: Path) -> None:
    """The majority lost its disks: nothing is served rather than a second history begun."""
    with MusterCluster(tmp_path / "majority", partitions=10) as cluster:
        for replica in (0, 1):
            cluster.kill(replica)
            shutil.rmtree(data_of(cluster, replica))
        for replica in (0, 1):
            cluster.start_replica(replica, wait_ready=False)
        for replica in (0, 1):
            wait_until("it answers", lambda replica=replica: cluster.probe(replica, "/livez") == 200, 30)  # type: ignore[misc]

        def both_say_so() -> bool:
            told = [reasons_of(cluster, replica) for replica in (0, 1)]
            return all(any("empt" in reason.lower() for reason in reasons) for reasons in told)

        wait_until("both say that they were emptied", both_say_so, 20)
        for replica in range(3):
            assert cluster.probe(replica, "/readyz") == 503


def test_data_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """Another cluster's replica on the seat of ours: neither side takes it, it says so, the others go on."""
    strange = tmp_path / "strange"
    with MusterCluster(tmp_path / "foreign", partitions=10) as foreign:
        foreign.stop()
        shutil.copytree(data_of(foreign, 2), strange)
    with MusterCluster(tmp_path / "home", partitions=10) as cluster:
        create_topic(cluster, "kept")
        cluster.kill(2)
        shutil.rmtree(data_of(cluster, 2))
        shutil.copytree(strange, data_of(cluster, 2))
        cluster.start_replica(2, wait_ready=False)
        wait_until("it answers", lambda: cluster.probe(2, "/livez") == 200, 30)
        home = cluster.status(0)["cluster_id"]

        def says_so() -> bool:
            told = reasons_of(cluster, 2)
            return any(home in reason and "belongs to cluster" in reason and "refused" in reason for reason in told)

        wait_until("it names both clusters", says_so, 20)
        assert cluster.probe(2, "/readyz") == 503
        _, host, port = find_coordinator(f"127.0.0.1:{cluster.client_port(0)}", "group")
        with RawClient(host, port) as client:
            assert commit(client, "group", "kept", {0: 8}) == {0: NONE}


def test_a_single_voters_data_does_not_fit_a_cluster_of_three(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "one", replicas=1, partitions=10) as one:
        one.stop()
        config = one.folder / "replica-0" / "server.properties"
        text = config.read_text()
        voters = next(line for line in text.splitlines() if line.startswith("controller.quorum.voters="))
        config.write_text(text.replace(voters, f"{voters},1@127.0.0.1:1,2@127.0.0.1:2"))
        code, output = start_refused(config)
        assert code == 65, output
        assert "[0]" in output
        assert "[0, 1, 2]" in output


def test_another_number_of_offsets_partitions_is_refused_naming_both(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "n", replicas=1, partitions=10) as cluster:
        cluster.stop()
        config = cluster.folder / "replica-0" / "server.properties"
        text = config.read_text()
        assert "offsets.topic.num.partitions=10" in text
        config.write_text(text.replace("offsets.topic.num.partitions=10", "offsets.topic.num.partitions=60"))
        code, output = start_refused(config)
        assert code != 0
        assert "10" in output
        assert "60" in output


def test_a_stopped_cluster_comes_back_with_what_it_knew(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "again", partitions=10) as cluster:
        create_topic(cluster, "kept")
        _, host, port = find_coordinator(cluster.bootstrap, "group")
        with RawClient(host, port) as client:
            assert commit(client, "group", "kept", {0: 123}, metadata="before") == {0: NONE}
        cluster_id = cluster.status(0)["cluster_id"]
        assert cluster.stop() == 0
        cluster.start(fresh=False)
        assert cluster.status(0)["cluster_id"] == cluster_id
        _, host, port = find_coordinator(cluster.bootstrap, "group")
        with RawClient(host, port) as client:
            assert fetch(client, "group", "kept", [0]) == {0: (123, "before", NONE)}
