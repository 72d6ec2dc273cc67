"""`kubectl muster report`: canary secrets wherever users put secrets, and not one byte of them in the bundle."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.plugin import bundle
from muster_operator.plugin.main import app
from muster_operator.plugin.redact import Redaction
from typer.testing import CliRunner

from tests.operator.plugin.fake_api import CLUSTERS, CORE, GROUPS, PODS, Server, cluster, group, pod, said

CANARIES = {
    where: f"canary-{where}-0b5e"
    for where in (
        "secret", "env", "pod-env", "annotation", "applied", "argument", "option", "config", "header", "csi", "query",
        "bearer", "logged", "pem", "url", "init-env", "command", "quoted",
    )
}  # fmt: skip
PEM = f"-----BEGIN PRIVATE KEY-----\n{CANARIES['pem']}\n-----END PRIVATE KEY-----"
QUOTED = f'say "{CANARIES["quoted"]}"'


@pytest.fixture
def shop(serving: Server) -> Server:
    """Objects that hold a secret in each place that can hold one, and programs that log them."""
    mine = group(state="Stable", conditions=[said("Degraded", "True", message=f"failing: {CANARIES['env']}")])
    mine["metadata"]["annotations"] = {
        "example.com/password": CANARIES["annotation"],
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{CANARIES["applied"]}"}}',
        "muster.dev/restarted-at": "2026-01-01T00:00:00Z",
    }
    mine["spec"]["template"] = {
        "image": "registry.example.com/app:1",
        "command": ["/bin/app", CANARIES["command"]],
        "args": ["--password", CANARIES["argument"], f"--token={CANARIES['option']}", "--verbose"],
        "env": [
            {"name": "DATABASE", "value": CANARIES["env"]}, {"name": "KEY", "value": PEM},
            {"name": "QUOTED", "value": QUOTED},
            {"name": "BY_REFERENCE", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}},
        ],
        "livenessProbe": {
            "httpGet": {
                "path": f"/live?key={CANARIES['query']}",
                "httpHeaders": [{"name": "Authorization", "value": CANARIES["header"]}],
            }
        },
        "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"pin": CANARIES["csi"]}}}],
    }  # fmt: skip
    serving.put(GROUPS, mine)
    kept = cluster(readyReplicas=1)
    kept["spec"]["config"] = {"ssl.keystore.password": CANARIES["config"], "num.partitions": 6}
    serving.put(CLUSTERS, kept)
    serving.put(PODS, pod("main-0", component="coordinator", instance="main"))
    consumer = pod(
        "orders-0", component="consumer", instance="orders", restarts=1,
        initContainers=[{"name": "prepare", "env": [{"name": "X", "value": CANARIES["init-env"]}]}],
    )  # fmt: skip
    consumer["spec"]["containers"][0]["env"] = [
        {"name": "OTHER", "value": CANARIES["pod-env"]}, {"name": "KAFKA_GROUP_ID", "value": "orders-v2"},
    ]  # fmt: skip
    serving.put(PODS, consumer)
    _fill(serving)
    return serving


def _fill(serving: Server) -> None:
    serving.put(
        f"{CORE}/secrets",
        {"metadata": {"name": "main-admin", "namespace": "shop"}, "data": {"token": CANARIES["secret"]}},
    )
    serving.put(
        f"{CORE}/events",
        {
            "metadata": {"name": "e1", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "orders-0"},
            "reason": "Failed",
            "message": f"cannot start with {CANARIES['pod-env']} in group orders-v2",
        },
    )
    log = "\n".join([
        "consuming in group orders-v2", f"DATABASE={CANARIES['env']}", PEM,
        f"Authorization: Bearer {CANARIES['bearer']}",
        f'{{"env": "say \\"{CANARIES["quoted"]}\\""}}', f'password="{CANARIES["logged"]}"',
        f"see https://me:{CANARIES['url']}@host/",
    ])  # fmt: skip
    serving.texts[f"{PODS}/orders-0/log/consumer"] = log
    serving.texts[f"{PODS}/orders-0/log/consumer/previous"] = f"panic: {CANARIES['init-env']}\n"
    serving.texts[f"{PODS}/orders-0/log/prepare"] = f"ran {CANARIES['argument']} {CANARIES['command']}\n"
    serving.texts[f"{PODS}/main-0/log/coordinator"] = "formed\n"
    serving.texts[f"{PODS}/main-0:8080/proxy/metrics"] = "muster_leaderships 50\n"
    serving.answers = lambda _: (0, '{"version": "0.1.0"}', "")


def call(path: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["report", "--file", str(path), *words])


def files_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {
            entry.name.partition("/")[2]: opened.read()
            for entry in archive.getmembers()
            if (opened := archive.extractfile(entry)) is not None
        }


def test_no_canary_is_in_the_bundle_and_what_helps_is(shop: Server, tmp_path: Path) -> None:
    done = call(tmp_path / "r.tar.gz")
    files = files_of(tmp_path / "r.tar.gz")
    whole = b"\n".join(files.values())
    assert [where for where, canary in CANARIES.items() if canary.encode() in whole] == []
    for path in (
        "README.txt", "summary.txt", "events.yaml", "objects/consumergroup/orders.yaml", "objects/pod/main-0.yaml",
        "objects/coordinatorcluster/main.yaml", "pods/orders-0/consumer.log", "pods/orders-0/consumer.previous.log",
        "pods/orders-0/prepare.log", "metrics/main-0.txt", "coordinators/main-0.json", "missing.txt",
    ):  # fmt: skip
        assert files[path], path
    assert b"consuming in group orders-v2" in files["pods/orders-0/consumer.log"], "facts are no secrets"
    assert b"in group orders-v2" in files["events.yaml"]
    stored = yaml.safe_load(files["objects/consumergroup/orders.yaml"])
    assert [one["name"] for one in stored["spec"]["template"]["env"]] == ["DATABASE", "KEY", "QUOTED", "BY_REFERENCE"]
    assert stored["spec"]["template"]["env"][3]["valueFrom"]["secretKeyRef"]["name"] == "database"
    assert stored["spec"]["template"]["args"] == ["--password", "(redacted)", "--token=(redacted)", "--verbose"]
    assert stored["metadata"]["annotations"]["muster.dev/restarted-at"] == "2026-01-01T00:00:00Z"
    assert yaml.safe_load(files["objects/coordinatorcluster/main.yaml"])["spec"]["config"]["num.partitions"] == 6
    assert done.exit_code == 5, "the operator's namespace was not given, and that is said"
    assert "operator" in files["missing.txt"].decode()


def test_secrets_are_not_even_asked_for(shop: Server, tmp_path: Path) -> None:
    call(tmp_path / "r.tar.gz", "--operator-namespace", "shop")
    assert shop.asked
    assert [one for one in shop.asked if "/secrets" in one or "/configmaps" in one] == []
    (command,) = shop.commands
    assert command[0] == "main-0"
    assert "--token-file=/etc/muster-admin/token" in command, "the token stays in the pod"


def test_what_could_not_be_had_is_named(shop: Server, tmp_path: Path) -> None:
    shop.forbidden.add(f"{PODS}/main-0:8080/proxy/metrics")
    shop.forbidden.add(f"{CORE}/events")
    shop.answers = lambda _: (2, "", "no such file")
    done = call(tmp_path / "r.tar.gz")
    assert done.exit_code == 5
    missing = files_of(tmp_path / "r.tar.gz")["missing.txt"].decode()
    for expected in (
        "metrics/main-0.txt",
        "events.yaml: events: 403",
        "coordinators/main-0.json: exit code 2: no such",
    ):
        assert expected in missing


def test_the_operator_is_part_of_it_where_its_namespace_is_given(shop: Server, tmp_path: Path) -> None:
    operator = pod("muster-operator-1", component="operator", instance="muster")
    operator["metadata"]["labels"]["app.kubernetes.io/name"] = "muster-operator"
    shop.put(PODS, operator)
    shop.texts[f"{PODS}/muster-operator-1/log/operator"] = "leading\n"
    shop.texts[f"{PODS}/muster-operator-1:8080/proxy/metrics"] = "muster_operator_is_leader 1\n"
    done = call(tmp_path / "r.tar.gz", "--operator-namespace", "shop")
    assert done.exit_code == 0, done.output
    files = files_of(tmp_path / "r.tar.gz")
    assert b"leading" in files["pods/muster-operator-1/operator.log"]
    assert "missing.txt" not in files


def test_without_logs(shop: Server, tmp_path: Path) -> None:
    call(tmp_path / "r.tar.gz", "--no-logs")
    assert [one for one in files_of(tmp_path / "r.tar.gz") if one.startswith("pods/")] == []


def test_a_file_that_exists_is_kept_and_nobody_else_may_read_a_new_one(shop: Server, tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"
    path.write_text("mine")
    done = call(path)
    assert done.exit_code == 1
    assert path.read_text() == "mine"
    call(tmp_path / "other.tar.gz")
    assert (tmp_path / "other.tar.gz").stat().st_mode & 0o777 == 0o600


def test_half_a_bundle_is_not_left_behind(shop: Server, tmp_path: Path) -> None:
    shop.forbidden.add(GROUPS)
    done = call(tmp_path / "r.tar.gz")
    assert done.exit_code == 1
    assert list(tmp_path.glob("*.gz")) == []


def test_what_is_too_much_is_named_as_missing(shop: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "BYTES_MAX", 6_000)
    shop.texts[f"{PODS}/orders-0/log/consumer"] = "a line of a log\n" * 1_000
    done = call(tmp_path / "r.tar.gz")
    assert done.exit_code == 5
    assert "pods/orders-0/consumer.log: the report would be larger" in done.output


def test_a_full_disk_is_one_sentence(shop: Server) -> None:
    done = call(Path("/dev/full/r.tar.gz"))
    assert done.exit_code == 1
    assert "cannot write" in done.output


@pytest.mark.parametrize(
    "text",
    ["Bearer abcdef123456", "password=hunter22", '"api_key": "hunter22"', "token: hunter22", "http://u:hunter22@h/"],
)
def test_what_looks_like_a_secret_is_taken_out_of_texts(text: str) -> None:
    cleaned = Redaction().text(text)
    assert "hunter22" not in cleaned
    assert "abcdef123456" not in cleaned


def test_values_of_any_type_are_replaced() -> None:
    """Objects of a foreign hand: numbers, none and lists where a text belongs."""
    odd: Any = {"env": [{"name": "A", "value": 5}, {"name": "B"}, {"name": "C", "value": None}], "args": [1, None]}
    assert Redaction().of(odd)["env"] == [
        {"name": "A", "value": "(redacted)"},
        {"name": "B"},
        {"name": "C", "value": None},
    ]
