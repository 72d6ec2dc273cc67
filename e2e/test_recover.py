"""The runbook of a majority that is lost for good, on a node, word by word: two of three claims are deleted, the third
goes on. What the command says in advance is checked against what clients had been told."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from e2e import readme
from e2e.commit_load import PARTITIONS, TOPIC, Librdkafka, committing
from e2e.fleet import Cluster, until
from e2e.node import paths
from e2e.node.client import Client
from e2e.node.session import Description

pytestmark = pytest.mark.timeout(900)

RECOVERED_S = 300.0
BLOCK = re.compile(r"```\n(kubectl -n NS annotate cc main muster\.dev/paused=true\n.*?)```", re.DOTALL)
RUNBOOKS = paths.ROOT / "docs" / "runbooks.md"


def commands(namespace: str) -> str:
    """As an administrator copies them; without a terminal `exec` is not told to make one."""
    (found,) = BLOCK.findall(RUNBOOKS.read_text())
    return str(found).replace("-n NS ", f"-n {namespace} ").replace("exec -it ", "exec -i ")


def test_the_runbook_word_by_word(operator: Client, namespace: Client, node: Description, tmp_path: Path) -> None:
    secured = {"listeners": [{"name": "internal", "port": 9092}], "peers": {"security": "tls"}}
    cluster = Cluster.create(namespace, offsetsPartitions=3, **secured).ready()
    values = [f"record-{number}" for number in range(200)]
    cluster.create_topic("kept", 3)
    cluster.produce("kept", values)
    with committing(cluster, "load-lost", (Librdkafka, Librdkafka)) as load:
        load.check()
    cluster_id = cluster.read()["status"]["clusterId"]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands(namespace.namespace)], cwd=tmp_path, env=readme.environment(node),
        input=f"{cluster_id}\n", capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    print(done.stdout)
    said = json.loads((tmp_path / "0.json").read_text())
    assert said, "what is compared with other folders"
    cluster.ready(RECOVERED_S)

    def whole() -> bool:
        status = cluster.read()["status"]
        return status.get("brokers") == 3 and status.get("underReplicated") == 0

    until("three coordinators that have everything", whole, RECOVERED_S, every=1.0)
    assert cluster.read()["status"]["clusterId"] == cluster_id, "no client and no operator has to be told"
    assert sorted(value for _, value in cluster.records("kept")) == sorted(values)
    load.nothing_lost()
    with committing(cluster, "load-after", (Librdkafka,)) as after:
        after.check()
    assert {one["partition"] for one in cluster.group("load-after-0")["offsets"]} == set(range(PARTITIONS)), TOPIC
