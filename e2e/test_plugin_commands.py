"""`kubectl muster` on real objects, pods and coordinators: every command, as a person types it."""

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.fleet import OPERATOR_NAMESPACE, Cluster, Group, condition, until
from e2e.node.client import Refused

pytestmark = pytest.mark.timeout(400)

TALKATIVE = (
    "import os, runpy; print('starting with', os.environ['DATABASE'], flush=True);"
    " runpy.run_path('/program/consumer.py', run_name='__main__')"
)
NOT_STARTED = re.compile("is waiting to start|is not created|does not have a host")
"""What the API server says of a container whose log is asked for too early."""
CANARIES = {where: f"canary-{where}-7c41" for where in ("secret", "env", "annotation", "pod-annotation", "argument")}


def committed(mine: Group) -> dict[int, int]:
    """Partition → offset, by the coordinator's own word."""
    offsets = mine.truth().get("offsets", [])
    return {one["partition"]: one["offset"] for one in offsets if one["topic"] == mine.name}


def test_status_describe_and_lag(group: Callable[..., Group]) -> None:
    mine = group(replicas=2)

    def told() -> dict[str, str]:
        """The status, which follows the group by seconds."""
        rows = json.loads(mine.client.plugin("status", "--output=json"))
        return next(one for one in rows["groups"] if one["NAME"] == mine.name)

    until("Stable in the status", lambda: told()["STATE"] == "Stable", 60, every=2.0)
    rows = json.loads(mine.client.plugin("status", "--output=json"))
    assert any(one["NAME"] == mine.cluster.name and one["QUORUM"] == "True" for one in rows["clusters"])
    assert "GROUP-ID" in mine.client.plugin("status", "--output=wide")
    assert f"{mine.name}-0" in mine.client.plugin("describe", f"cg/{mine.name}")
    assert mine.name in mine.client.plugin("lag")

    def caught_up() -> bool:
        now = json.loads(mine.client.plugin("lag", f"cg/{mine.name}", "--output=json"))
        return len(now) == mine.partitions and all(one["lag"] in (0, None) for one in now)

    until("lag 0 of every partition", caught_up, 60, every=2.0)


def test_scale_pause_and_resume(group: Callable[..., Group]) -> None:
    mine = group(replicas=2)
    assert "it is paused" in mine.client.plugin("pause", f"cg/{mine.name}")
    assert condition(mine.read(), "Paused")["status"] == "True"
    with pytest.raises(Refused) as told:
        mine.client.plugin("scale", f"cg/{mine.name}", "3", "--timeout-seconds=10")
    assert told.value.status == 3, "a paused object is not scaled, and that is not called done"
    assert len(mine.pods()) == 2
    mine.client.plugin("resume", f"cg/{mine.name}")
    until("third pod", lambda: len(mine.pods()) == 3, 60)
    mine.stable(3)
    mine.client.plugin("scale", f"cg/{mine.name}", "1", timeout_s=200)
    assert len(mine.pods()) == 1
    mine.stable(1)
    with pytest.raises(Refused, match="voter"):
        mine.client.plugin("scale", f"cc/{mine.cluster.name}", "5")


def test_reset_of_a_live_and_of_a_stopped_group(group: Callable[..., Group]) -> None:
    mine = group(replicas=2)
    before = until("commits of every partition", lambda: _all_committed(mine), 60)
    everything = (f"cg/{mine.name}", "--all-topics", "--to-earliest")
    with pytest.raises(Refused, match="members") as refused:
        mine.client.plugin("reset", *everything, "--execute")
    assert refused.value.status == 1
    mine.stable(2)
    mine.client.plugin("scale", f"cg/{mine.name}", "0", timeout_s=200)
    until("an empty group", lambda: mine.truth().get("state") == "Empty", 60)
    before = committed(mine)
    dry = json.loads(mine.client.plugin("reset", *everything, "--output=json"))
    assert {one["new_offset"] for one in dry} == {0}
    assert committed(mine) == before, "a dry run changes nothing"
    mine.client.plugin("reset", *everything, "--execute")
    assert set(committed(mine).values()) == {0}
    mine.client.plugin("reset", f"cg/{mine.name}", f"--topic={mine.name}:0", "--to-latest", "--execute")
    now = committed(mine)
    assert now[0] == before[0]
    assert {now[number] for number in now if number} == {0}
    mine.client.plugin("reset", f"cg/{mine.name}", f"--topic={mine.name}:0", "--shift-by", "-1", "--execute")
    assert committed(mine)[0] == max(0, before[0] - 1)
    mine.client.plugin("scale", f"cg/{mine.name}", "2", timeout_s=200)
    mine.stable(2)


def _all_committed(mine: Group) -> dict[int, int]:
    found = committed(mine)
    return found if len(found) == mine.partitions else {}


def test_logs_are_prefixed(group: Callable[..., Group], shared: Cluster) -> None:
    mine = group(replicas=2)
    said = mine.client.plugin("logs", f"cg/{mine.name}", "--tail=20")
    assert all(line.startswith(f"[{mine.name}-") for line in said.splitlines())
    told = shared.client.plugin("logs", f"cc/{shared.name}", "--tail=5")
    assert {line.split("/")[0] for line in told.splitlines()} == {f"[{shared.name}-{n}" for n in range(3)}


def test_a_report_without_one_secret(group: Callable[..., Group], tmp_path: Path) -> None:
    """Canaries in a Secret, in the environment (which the program prints), in annotations and in an argument."""
    mine = group(replicas=1)
    mine.client.apply(
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "canary"},
            "stringData": {"password": CANARIES["secret"]},
        },
        mine.manifest(
            1,
            command=["python3", "-c", TALKATIVE, CANARIES["argument"]],
            env=[{"name": "DATABASE", "value": CANARIES["env"]},
                 {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "canary", "key": "password"}}}],
            annotations={"example.com/pin": CANARIES["pod-annotation"]},
        ),
    )  # fmt: skip
    mine.client.kubectl("annotate", "cg", mine.name, f"example.com/token={CANARIES['annotation']}")
    token = mine.cluster.token()

    def has_spoken() -> bool:
        try:
            return CANARIES["env"] in mine.client.plugin("logs", f"cg/{mine.name}")
        except Refused as early:
            assert NOT_STARTED.search(str(early)), early
            return False

    until("the new pod's word", has_spoken, 120, every=2.0)
    path = tmp_path / "report.tar.gz"
    try:
        mine.client.plugin("report", f"--file={path}", f"--operator-namespace={OPERATOR_NAMESPACE}", timeout_s=300)
    except Refused as holes:
        # Kubernetes keeps the log before a restart for a while only.
        assert holes.status == 5, holes
        assert all(".previous.log: " in line for line in holes.stderr.splitlines()), holes
    with tarfile.open(path) as archive:
        files = {one.name.partition("/")[2]: opened.read() for one in archive if (opened := archive.extractfile(one))}
    whole = b"\n".join(files.values())
    assert [where for where, canary in CANARIES.items() if canary.encode() in whole] == []
    assert token.encode() not in whole
    assert b"starting with (redacted)" in files[f"pods/{mine.name}-0/consumer.log"]
    for ordinal in range(3):
        pod = f"{mine.cluster.name}-{ordinal}"
        assert b"muster_leaderships" in files[f"metrics/{pod}.txt"]
        assert len(json.loads(files[f"coordinators/{pod}.json"])["replicas"]) == 3
    stored = yaml.safe_load(files[f"objects/consumergroup/{mine.name}.yaml"])
    assert stored["status"]["state"]
    assert any(name.startswith("metrics/muster-operator") for name in files)


def test_completion_by_kubectl(shared: Cluster) -> None:
    """kubectl itself asks the plug-in."""
    client = shared.client
    environment = client.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        [str(client.tools.path("kubectl")), "__complete", "muster", "describe", "--namespace", client.namespace, "cc/"],
        env=environment, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert f"cc/{shared.name}" in done.stdout
