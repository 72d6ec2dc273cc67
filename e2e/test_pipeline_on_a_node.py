"""The pipeline's chart on a node, beside a live cluster, with its tables in an object store: a stream that is killed
and goes on, a batch by schedule whose report is served, and three executors that share nothing but the store.

The store is versitygw in a pod (`more_images`). Tables are read here as any reader would, by the store's S3 API.
"""

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from muster_pipeline import store
from muster_pipeline.store import runs
from muster_pipeline.store.place import place
from muster_pipeline.verify.tables import check
from prometheus_client.parser import text_string_to_metric_families

from e2e.fleet import Cluster, Group, until
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.object_store import KEYS, endpoint, objects
from tests.operator.api.generate import ROOT
from tests.pipeline.store.lake_contract import published_bytes

pytestmark = pytest.mark.timeout(1200)
CHART = ROOT / "charts" / "muster-pipeline"
NAMESPACE = "lake"
BUCKET = "tables"
GROUP = "of-the-lake"
ENDPOINT = endpoint(NAMESPACE)
MASTER_PORT = 7077
ENDED_S = 200
"""A round that is under way is ended first."""
EXECUTORS = 3
SPARK_CLASS = 'exec "$(python3 -c "import os, pyspark; print(os.path.dirname(pyspark.__file__))")"/bin/spark-class '
ENVIRONMENT = [{"name": name, "value": value} for name, value in ENDPOINT.items()]
SPARK_CONTAINER = {
    "env": [*ENVIRONMENT, {"name": "HOME", "value": "/tmp"}, {"name": "SPARK_LOCAL_DIRS", "value": "/tmp"},
            {"name": "HADOOP_USER_NAME", "value": "muster"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "envFrom": [{"secretRef": {"name": "s3-keys"}}],
    "workingDir": "/tmp",
    "imagePullPolicy": "Never",
}  # fmt: skip
"""What each container of Spark has."""


@pytest.fixture(scope="module")
def lake(operator: Client, node: Description, lake_images: tuple[str, str]) -> Iterator[Group]:
    """A namespace with a store, a cluster, and a group whose two members have consumed 300 records."""
    client = node.client(NAMESPACE)
    client.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-keys"}, "stringData": KEYS},
        *objects(*lake_images, BUCKET),
    )
    cluster = Cluster.create(client).ready()
    group = Group(cluster=cluster, image=node.demo_image, name=GROUP, session_s=45)
    group.create(2)
    group.stable(2)
    group.produce(300)
    group.all_seen()
    client.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/s3")
    yield group
    group.delete()
    client.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(autouse=True)
def _store(lake: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, **ENDPOINT}.items():
        monkeypatch.setenv(name, value)


def install(group: Group, image: str, release: str, *words: str) -> str:
    """A release of the chart for this cluster; returns where its tables are."""
    repository, _, tag = image.rpartition(":")
    tables = f"s3a://{BUCKET}/{release}"
    settings = {
        "image.repository": repository, "image.tag": tag, "image.pullPolicy": "Never",
        "cluster": "live", "tables": tables, "source.bootstrap": group.cluster.bootstrap,
        "resources.requests.cpu": "100m", "report.resources.requests.cpu": "10m", "report.everySeconds": "5",
        "storage.secrets": "{s3-keys}",
    }  # fmt: skip
    for at, (name, value) in enumerate(ENDPOINT.items()):
        settings |= {f"storage.env[{at}].name": name, f"storage.env[{at}].value": value}
    sets = [f"--set-string={name}={value}" for name, value in settings.items() if not name.endswith("Seconds")]
    numbers = [f"--set={name}={value}" for name, value in settings.items() if name.endswith("Seconds")]
    group.client.helm("install", release, str(CHART), *sets, *numbers, *words)
    return tables


def served(release: str, page: str) -> str:
    """A page of the release's report; empty while there is none."""
    address = f"http://{release}-muster-pipeline.{NAMESPACE}.svc/{page}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def told(release: str) -> tuple[int, int]:
    """(committed offsets, lag) of the group, each summed over partitions, by the report's metrics; −1: no sample."""
    found = {"kafka_consumergroup_group_offset": -1, "kafka_consumergroup_group_lag": -1}
    for family in text_string_to_metric_families(served(release, "metrics.txt")):
        if family.name in found:
            values = [one.value for one in family.samples if one.labels["group"] == GROUP]
            found[family.name] = int(sum(values)) if values else -1
    return found["kafka_consumergroup_group_offset"], found["kafka_consumergroup_group_lag"]


def stream_pods(client: Client, release: str) -> list[dict[str, Any]]:
    selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=stream"
    items: list[dict[str, Any]] = client.read("pods", f"--selector={selector}")["items"]
    return items


def test_a_stream_that_is_killed_goes_on(lake: Group, lake_images: tuple[str, str]) -> None:
    tables = install(lake, lake_images[0], "followed", "--set=stream.everySeconds=2")
    until("the report of the stream", lambda: told("followed") == (len(lake.produced), 0), 240, every=1.0)
    lake.produce(200)
    lake.all_seen()
    until("a later round", lambda: told("followed") == (len(lake.produced), 0), 120, every=1.0)
    before = store.published(tables, "live").number
    (pod,) = stream_pods(lake.client, "followed")
    lake.client.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    lake.produce(200)
    lake.all_seen()
    until("a round of another pod", lambda: told("followed") == (len(lake.produced), 0), 240, every=1.0)
    (other,) = stream_pods(lake.client, "followed")
    assert other["metadata"]["uid"] != pod["metadata"]["uid"]
    lake.client.helm("uninstall", "followed", "--wait", timeout_s=ENDED_S)
    assert store.published(tables, "live").number > before
    assert store.damages(tables) == []
    assert [one for one in check(store.published(tables, "live")) if not one.holds] == []
    ledger = runs.load(place(tables))
    assert ledger is not None
    numbers = [one.run for one in ledger.published("live")]
    assert numbers == sorted(set(numbers)), "each run once"
    assert len(committed(tables)) == len(set(committed(tables))), "no record twice"


def committed(tables: str) -> list[tuple[int, int]]:
    """Place in the log of every offset commit."""
    found = store.read("commits", store.published(tables, "live"))
    return [
        (one["log_partition"], one["log_offset"]) for one in found.select(["log_partition", "log_offset"]).to_pylist()
    ]


def test_a_batch_by_schedule_and_executors_of_their_own(lake: Group, lake_images: tuple[str, str]) -> None:
    """The CronJob's turn and three executors read the same log, and publish the same bytes."""
    client, job = lake.client, "turn"
    words = ("stream.enabled=false", "batch.enabled=true", "source.logEndOffsets=false", "batch.schedule=0 0 1 1 *")
    tables = install(lake, lake_images[0], "scheduled", *(f"--set={one}" for one in words))
    client.kubectl("create", "job", "--from=cronjob/scheduled-muster-pipeline-batch", job)
    client.kubectl("wait", "--for=condition=Complete", "--timeout=240s", f"job/{job}", timeout_s=250)
    until("the batch's report", lambda: told("scheduled") == (len(lake.produced), -1), 120, every=1.0)
    assert GROUP in served("scheduled", "index.html")
    client.helm("uninstall", "scheduled", "--wait", timeout_s=ENDED_S)

    client.apply(
        spark_pod(
            "spark-master",
            lake_images[0],
            SPARK_CLASS + f"org.apache.spark.deploy.master.Master --host $POD_IP --port {MASTER_PORT}",
        )
    )
    client.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/spark-master")
    master = f"spark://{client.read('pod', 'spark-master')['status']['podIP']}:{MASTER_PORT}"
    workers = [f"spark-worker-{number}" for number in range(EXECUTORS)]
    worker = f"org.apache.spark.deploy.worker.Worker {master} --cores 1 --memory 1g --work-dir /tmp/work --host $POD_IP"
    client.apply(*(spark_pod(name, lake_images[0], SPARK_CLASS + worker) for name in workers))
    client.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"pod/{name}" for name in workers))
    until("three workers", lambda: client.kubectl("logs", "spark-master").count("Registering worker") == EXECUTORS, 60)
    conf = ("spark.driver.host=$POD_IP", "spark.driver.bindAddress=0.0.0.0", "spark.executor.memory=512m")
    ingest = (
        f"muster pipeline ingest --bootstrap {lake.cluster.bootstrap} --tables s3a://{BUCKET}/executed --cluster live"
    )
    client.apply(
        spark_pod(
            "driver", lake_images[0], " ".join([f"exec {ingest} --master {master}", *(f"--conf {one}" for one in conf)])
        )
    )
    client.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=240s", "pod/driver", timeout_s=250)
    logs = {name: client.kubectl("logs", name) for name in ("driver", *workers)}
    assert [name for name in workers if "Asked to launch executor" not in logs[name]] == []
    assert [name for name, text in logs.items() if KEYS["AWS_SECRET_ACCESS_KEY"] in text] == []
    sides = [published_bytes(store.published(one, "live")) for one in (f"s3a://{BUCKET}/executed", tables)]
    assert sides[0] == sides[1] != {}
    client.kubectl("delete", "pod", "driver", "spark-master", *workers, "--wait=false")


def spark_pod(name: str, image: str, script: str) -> dict[str, Any]:
    """A pod of its own, with a folder of its own, that runs this by the image's shell."""
    volumes = {"volumes": [{"name": "tmp", "emptyDir": {}}], "restartPolicy": "Never"}
    mounted = {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}
    container = {"name": "spark", "image": image, "command": ["sh", "-c", script], **SPARK_CONTAINER, **mounted}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "securityContext": {"fsGroup": 10001}, **volumes},
    }  # fmt: skip
