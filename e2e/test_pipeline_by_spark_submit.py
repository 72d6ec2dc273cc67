"""The pipeline by Spark's own Kubernetes scheduler, as docs/pipeline.md tells it word for word: rights, pod template,
`spark-submit --master k8s://…`. Driver and executors are pods that share nothing but an object store.

The log is files in that store, so that a plain process here reads the same one. Who submits is a service account with
the page's Role, and the namespace takes no pod that is not `restricted`.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.sources.folder import filesystem
from muster_pipeline.transforms.settings import FoldSettings
from pyarrow import fs

from e2e import readme
from e2e.cut import process_of
from e2e.fleet import until
from e2e.node import paths
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.object_store import KEYS, endpoint, objects
from e2e.pod_logs import PodLogs, followed
from e2e.test_rbac import Right, rights_of, used
from tests.pipeline.store import logfolder
from tests.pipeline.store.lake_contract import published_bytes

pytestmark = pytest.mark.timeout(1200)
PAGE = readme.blocks(paths.ROOT / "docs" / "pipeline.md")
NAMESPACE, BUCKET, CLUSTER = "pipeline", "lake", "prod"
LOG, TABLES = f"s3://{BUCKET}/logs", f"s3a://{BUCKET}/tables"
MORE_LOG_PARTITIONS = range(24, 50)
"""Beside those of `logfolder.make`: so many that each executor has several tasks."""
EXECUTOR = "spark-role=executor"
BUSY_S, ENDED_S = 240, 420
SMALL = {"spark.kubernetes.driver.request.cores": "100m", "spark.kubernetes.executor.request.cores": "100m"}
"""What the page does not say, because the node is small: settings of the machine that submits."""
KEPT = "configmaps,networkpolicies,persistentvolumeclaims,pods,services"
OF_EVERY_NAMESPACE = "kube-root-ca.crt"


@pytest.fixture(scope="module")
def client(node: Description, lake_images: tuple[str, str]) -> Iterator[Client]:
    """A namespace with a store, its keys, and the rights that the page has."""
    found = node.client(NAMESPACE)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    found.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-keys"}, "stringData": KEYS},
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lake"},
            "stringData": {**KEYS, **endpoint(NAMESPACE)},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "somebody"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "somebody"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spark-submit"},
            "subjects": [{"kind": "ServiceAccount", "name": "somebody"}],
        },
        *objects(*lake_images, BUCKET),
    )  # fmt: skip
    found.kubectl("apply", "--filename=-", given=PAGE["spark-rights"])
    found.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/s3")
    yield found
    found.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def expected(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Any, Any]]:
    """The log is in the store, and this is what a plain process publishes of it."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**KEYS, **endpoint(NAMESPACE)}.items():
            patched.setenv(name, value)
        log, plain = tmp_path_factory.mktemp("log"), tmp_path_factory.mktemp("plain")
        logfolder.make(log)
        for number in MORE_LOG_PARTITIONS:
            groups = [f"of-{number}-{one}" for one in range(20)]
            logfolder.write(log, number, [logfolder.commits(30, groups, 8)])
        system, path = filesystem(LOG)
        fs.copy_files(str(log), path, destination_filesystem=system)
        build(None, SegmentInput.listed(LOG, CLUSTER), plain, FoldSettings(cluster=CLUSTER))
        yield published_bytes(store.published(plain))


def somebody(client: Client, image: str, folder: Path) -> dict[str, str]:
    """The environment of who submits, in a folder with the page's pod template: no key of the store is in it. Spark
    looks for its machine's address, to which the name of the sandbox's does not lead."""
    config = yaml.safe_load(client.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": client.kubectl("create", "token", "somebody").strip()}
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    (folder / "pod.yaml").write_text(PAGE["spark-pod"])
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SMALL.items()))
    own = {name: value for name, value in client.environment().items() if not name.startswith("AWS_")}
    return {
        **own, "PATH": f"{Path(sys.executable).parent}:{own['PATH']}", "KUBECONFIG": str(folder / "kubeconfig"),
        "SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1",
        "API": config["clusters"][0]["cluster"]["server"], "IMAGE": image,
    }  # fmt: skip


def busy(logs: PodLogs, but: str = "") -> str:
    """Another executor in the middle of a task."""
    logs.look()
    tasks = {name: (text.count("Running task "), text.count("Finished task ")) for name, text in logs.texts().items()}
    return next((name for name, (begun, ended) in tasks.items() if begun > ended and name != but), "")


def left(client: Client) -> Counter[str]:
    """How many objects of each kind there are beside the store's."""
    items = client.read(KEPT)["items"]
    return Counter(one["kind"] for one in items if one["metadata"]["name"] not in ("s3", OF_EVERY_NAMESPACE))


def leaks(client: Client, texts: dict[str, str]) -> list[str]:
    """Where the store's key is."""
    shown = {"objects": client.kubectl("get", KEPT, "--output=json"), **texts}
    return [name for name, text in shown.items() if KEYS["AWS_SECRET_ACCESS_KEY"] in text]


def asked(node: Description, account: str, since: int) -> set[Right]:
    """The rights that a service account has used, by the API server's log from that byte on; it was refused none."""
    found: set[Right] = set()
    with (node.state / "logs" / "audit.log").open() as log:
        log.seek(since)
        for event in map(json.loads, log):
            if event["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:{account}" and "objectRef" in event:
                assert event["annotations"]["authorization.k8s.io/decision"] == "allow", event
                found |= set(used(event))
    return found


def granted(client: Client, role: str) -> set[Right]:
    return rights_of(client.read("role", role)["rules"])


def test_submitted_with_two_executors_killed_it_publishes_the_bytes_of_a_plain_process(
    client: Client, node: Description, expected: dict[Any, Any], lake_images: tuple[str, str], tmp_path: Path
) -> None:
    """One loses its pod, as with a node that is gone, another its process, as when its memory is at an end. Every right
    that the page grants is used."""
    told, since = tmp_path / "submitted", (node.state / "logs" / "audit.log").stat().st_size
    command = ["bash", "-euo", "pipefail", "-c", PAGE["spark-submit"]]
    environment = somebody(client, lake_images[0], tmp_path)
    with followed(client, EXECUTOR, tmp_path / "logs") as logs, told.open("wb") as file:
        submitted = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=file, stderr=subprocess.STDOUT)
        try:
            gone = until("executor with a task", lambda: ended(submitted, told) or busy(logs), BUSY_S)
            client.kubectl("delete", "pod", gone, "--grace-period=0", "--force")
            killed = until("another one", lambda: ended(submitted, told) or busy(logs, but=gone), BUSY_S)
            os.kill(process_of(killed), signal.SIGKILL)
            until("end of the run", lambda: logs.look() or submitted.poll() is not None, ENDED_S)
        finally:
            submitted.kill()
            submitted.wait()
    (driver,) = client.read("pods", "--selector=spark-role=driver")["items"]
    name = driver["metadata"]["name"]
    texts = {**logs.texts(), name: client.kubectl("logs", name), "who submits": told.read_text()}
    assert (submitted.returncode, driver["status"]["phase"]) == (0, "Succeeded"), texts[name][-3000:]
    lost = set(re.findall(r"Lost executor (\d+) ", texts[name]))
    assert {one.rpartition("-")[2] for one in (gone, killed)} <= lost, texts[name]
    assert [one for one, text in texts.items() if re.search(r"Running task \d+\.1 ", text)] != [], "none was run again"
    assert published_bytes(store.published(TABLES, CLUSTER)) == expected
    assert leaks(client, texts) == []
    assert left(client) == {"Pod": 1, "ConfigMap": 2, "NetworkPolicy": 1}
    client.kubectl("delete", "pod", name)
    until("only the store", lambda: not left(client), 60)
    assert asked(node, "spark-driver", since) == granted(client, "spark-driver")
    assert asked(node, "somebody", since) == granted(client, "spark-submit")


def ended(submitted: subprocess.Popen[bytes], told: Path) -> str:
    """Nothing, as long as it has not ended."""
    assert submitted.poll() is None, told.read_text()[-3000:]
    return ""


def test_a_pod_of_ours_is_the_driver(
    client: Client, node: Description, expected: dict[Any, Any], lake_images: tuple[str, str], tmp_path: Path
) -> None:
    """Client mode: what a CronJob's pod would do."""
    since = (node.state / "logs" / "audit.log").stat().st_size
    client.apply(driver_pod(lake_images[0]), config_map())
    with followed(client, EXECUTOR, tmp_path / "logs") as logs:
        phase = "pending"

        def is_over() -> bool:
            nonlocal phase
            logs.look()
            phase = client.read("pod", "driver")["status"]["phase"]
            return phase in ("Succeeded", "Failed")

        until("end of the run", is_over, ENDED_S)
    texts = {**logs.texts(), "driver": client.kubectl("logs", "driver")}
    assert phase == "Succeeded", texts["driver"][-3000:]
    assert len(texts) == 3
    assert published_bytes(store.published(f"{TABLES}-of-a-pod", CLUSTER)) == expected
    assert leaks(client, texts) == []
    assert left(client) == {"Pod": 1, "ConfigMap": 1}
    assert asked(node, "spark-driver", since) <= granted(client, "spark-driver")
    client.kubectl("delete", "pod/driver", "configmap/template")


def config_map() -> dict[str, Any]:
    """The page's template, for the driver to read."""
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "template"},
        "data": {"pod.yaml": PAGE["spark-pod"]},
    }  # fmt: skip


def driver_pod(image: str) -> dict[str, Any]:
    """The page's pod, with a command."""
    settings = {
        **SMALL, "spark.kubernetes.namespace": NAMESPACE, "spark.kubernetes.container.image": image,
        "spark.kubernetes.executor.podTemplateFile": "/template/pod.yaml",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "default",
        "spark.kubernetes.driver.pod.name": "driver", "spark.driver.host": "$(POD_IP)",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.executor.instances": "2", "spark.executor.memoryOverhead": "1g",
    }  # fmt: skip
    pod: dict[str, Any] = yaml.safe_load(PAGE["spark-pod"])
    (container,) = pod["spec"]["containers"]
    words = ["--segments", LOG, "--tables", f"{TABLES}-of-a-pod", "--cluster", CLUSTER]
    words += ["--master", "k8s://https://kubernetes.default.svc"]
    container["image"] = image
    container["args"] = [
        "pipeline", "ingest", *words, *(word for one in settings.items() for word in ("--conf", "=".join(one)))
    ]  # fmt: skip
    container["env"] = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    container["volumeMounts"].append({"name": "template", "mountPath": "/template"})
    pod["spec"]["volumes"].append({"name": "template", "configMap": {"name": "template"}})
    pod["spec"] |= {"serviceAccountName": "spark-driver", "restartPolicy": "Never"}
    return {**pod, "metadata": {"name": "driver"}}
