"""`kubectl muster report`: one archive with the data that remote support needs, without secrets.

Objects with their statuses, Events, last lines of logs, metrics, the coordinators' own status. Secrets are not read;
fields that may contain one are replaced (`redact`). What could not be read is listed in `missing.txt`, and the exit
code is 5: an incomplete bundle is better than none, and unlisted gaps would look like health.
"""

import os
import tarfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from kubernetes import client

from muster_operator import naming
from muster_operator.plugin import views
from muster_operator.plugin.bundle import README, Bundle
from muster_operator.plugin.coordinators import TOKEN_FILE, selector_of
from muster_operator.plugin.objects import CLUSTER, GROUP, Kind, Objects, Trouble
from muster_operator.plugin.options import Context, Exit, Kubeconfig, Namespace, plain_errors
from muster_operator.plugin.pods import Pods, containers, items
from muster_operator.plugin.redact import Redaction

LOG_LINES_DEFAULT = 2_000
LOG_BYTES_MAX = 4 * 1024 * 1024
"""Per container."""
EVENTS_MAX = 2_000
OPERATOR_SELECTOR = "app.kubernetes.io/name=muster-operator"


def report(
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    file: Annotated[
        Path | None, typer.Option(help="Default: muster-report-NAMESPACE-TIME.tar.gz in the current folder.")
    ] = None,
    with_logs: Annotated[
        bool, typer.Option("--logs/--no-logs", help="Include the last lines of the pods' logs.")
    ] = True,
    log_lines: Annotated[
        int, typer.Option("--log-lines", min=1, help="Number of last lines per container.")
    ] = LOG_LINES_DEFAULT,
    operator_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the operator, for its log and metrics.")
    ] = None,
) -> None:
    """Write a support bundle: objects, Events, logs, metrics, the coordinators' status. Without secrets."""
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    with plain_errors():
        objects = Objects.connect(kubeconfig=kubeconfig, context=context, namespace=namespace)
        assert objects.namespace is not None, "None is all namespaces, which this command does not offer"
        name = f"muster-report-{objects.namespace}-{time}"
        path = file or Path(f"{name}.tar.gz")
        try:
            missing = _write(path, name, objects, operator_namespace, log_lines if with_logs else 0)
        except OSError as error:
            raise Trouble(f"cannot write {path}: {error.strerror or error}") from error
    typer.echo(str(path))
    for one in missing:
        typer.echo(f"kubectl muster: missing: {one}", err=True)
    raise typer.Exit(Exit.INCOMPLETE if missing else Exit.OK)


def _write(path: Path, name: str, objects: Objects, operator_namespace: str | None, log_lines: int) -> list[str]:
    """Write a file that only the user may read, and that is removed if it is not complete."""
    with open(path, "xb", opener=_private) as target:
        try:
            with tarfile.open(fileobj=target, mode="w:gz") as archive:
                return _gather(archive, name, objects, operator_namespace, log_lines)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _gather(
    archive: tarfile.TarFile, name: str, objects: Objects, operator_namespace: str | None, log_lines: int
) -> list[str]:
    namespace = str(objects.namespace)
    owners = {kind: list(objects.list(kind)) for kind in (CLUSTER, GROUP)}
    pods = Pods(namespace)
    redaction = Redaction(_facts(owners))
    bundle = Bundle(archive, name, redaction)
    children, live_pods = _children(bundle, namespace, owners, pods)
    plain = [(kind.singular, redaction.of(one)) for kind, found in owners.items() for one in found]
    plain += [(kind, redaction.of(one)) for kind, one in children]
    # All objects that may contain a secret have been seen: now texts can be written.
    time = datetime.now(UTC).isoformat(timespec="seconds")
    bundle.add("README.txt", README.format(namespace=namespace, time=time, redacted="(redacted)"))
    for kind, one in plain:
        bundle.add(f"objects/{kind}/{one['metadata']['name']}.yaml", _yaml(redaction.clean(one)))
    bundle.add("summary.txt", _summary(owners))
    names = {one["metadata"]["name"] for _, one in plain}
    bundle.attempt("events.yaml", lambda: _yaml(redaction.clean(_events(namespace, names))))
    _of_pods(bundle, pods, live_pods, log_lines)
    for cluster in owners[CLUSTER]:
        _of_coordinators(bundle, pods, cluster, live_pods)
    if operator_namespace is not None:
        _of_operator(bundle, operator_namespace, log_lines)
    else:
        bundle.missing.append("operator: its namespace was not given (--operator-namespace)")
    if bundle.missing:
        bundle.add("missing.txt", "\n".join(bundle.missing) + "\n")
    return bundle.missing


def _facts(owners: Mapping[Kind, Iterable[Mapping[str, Any]]]) -> set[str]:
    found: set[str] = set()
    for objs in owners.values():
        for obj in objs:
            spec = obj["spec"]
            found |= {obj["metadata"]["name"], str(spec.get("groupId")), *(spec.get("topics") or ())}
            found |= set(((obj.get("status") or {}).get("bootstrapServers") or {}).values())
            found |= {str(spec.get("bootstrapServers"))}
    return found


def _children(
    bundle: Bundle, namespace: str, owners: Mapping[Kind, Iterable[Mapping[str, Any]]], pods: Pods
) -> tuple[list[tuple[str, Mapping[str, Any]]], list[Mapping[str, Any]]]:
    """The objects that the operator created, the namespace's claim, and the pods of all objects."""
    ours = f"{naming.MANAGED_BY_LABEL}={naming.FIELD_MANAGER}"
    apps, core = client.AppsV1Api(), client.CoreV1Api()
    listed = (
        ("statefulset", apps.list_namespaced_stateful_set, ours),
        ("service", core.list_namespaced_service, ours),
        ("persistentvolumeclaim", core.list_namespaced_persistent_volume_claim, f"{naming.NAME_LABEL}=muster"),
        ("poddisruptionbudget", client.PolicyV1Api().list_namespaced_pod_disruption_budget, ours),
        ("networkpolicy", client.NetworkingV1Api().list_namespaced_network_policy, ours),
    )
    found: list[tuple[str, Mapping[str, Any]]] = []
    for kind, call, labels in listed:
        try:
            found += [(kind, one) for one in items(call, kind, namespace=namespace, label_selector=labels)]
        except Trouble as error:
            bundle.missing.append(f"objects/{kind}: {error}")
    live: dict[str, Mapping[str, Any]] = {}
    for owner, objs in owners.items():
        for obj in objs:
            try:
                live |= {one["metadata"]["name"]: one for one in pods.list(selector_of(owner, obj))}
            except Trouble as error:
                bundle.missing.append(f"pods of {owner.singular}/{obj['metadata']['name']}: {error}")
    found += [("pod", one) for one in live.values()]
    return found, list(live.values())


def _summary(owners: Mapping[Kind, list[Mapping[str, Any]]]) -> str:
    clusters, groups = owners[CLUSTER], owners[GROUP]
    parts = []
    if clusters:
        rows = [views.cluster_row(one) for one in clusters]
        parts.append(views.table(rows, views.CLUSTER_COLUMNS + views.CLUSTER_WIDE_COLUMNS))
    if groups:
        parts.append(
            views.table([views.group_row(one) for one in groups], views.GROUP_COLUMNS + views.GROUP_WIDE_COLUMNS)
        )
    parts += [views.describe_cluster(one) for one in clusters]
    parts += [views.describe_group(one) for one in groups]
    return "\n\n".join(parts) + "\n"


def _yaml(plain: object) -> str:
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def _events(namespace: str, names: set[str]) -> list[Mapping[str, Any]]:
    found = items(client.CoreV1Api().list_namespaced_event, "events", namespace=namespace)
    kept = ("reason", "message", "type", "count", "series", "firstTimestamp", "lastTimestamp", "eventTime")
    about = [one for one in found if (one.get("involvedObject") or {}).get("name") in names]
    about.sort(key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
    return [
        {"about": "{kind}/{name}".format(**one["involvedObject"])} | {key: one[key] for key in kept if one.get(key)}
        for one in about[-EVENTS_MAX:]
    ]


def _of_pods(bundle: Bundle, pods: Pods, live: Iterable[Mapping[str, Any]], log_lines: int) -> None:
    for pod in live:
        name = pod["metadata"]["name"]
        if log_lines:
            _logs(bundle, pods, pod, log_lines)
        if pod["metadata"].get("labels", {}).get(naming.COMPONENT_LABEL) == naming.COORDINATOR:
            bundle.attempt(f"metrics/{name}.txt", partial(pods.probe_page, name, naming.PROBE_PORT, "metrics"))


def _logs(bundle: Bundle, pods: Pods, pod: Mapping[str, Any], log_lines: int) -> None:
    name, statuses = pod["metadata"]["name"], (pod.get("status") or {})
    known = [*(statuses.get("initContainerStatuses") or ()), *(statuses.get("containerStatuses") or ())]
    restarted = {one["name"] for one in known if one.get("restartCount")}

    def read(container: str, *, previous: bool) -> str:
        lines = pods.log_lines(
            name, container, previous=previous, tail_lines=log_lines, limit_bytes=LOG_BYTES_MAX, timestamps=True
        )
        return "".join(f"{line}\n" for line in lines)

    for container in containers(pod):
        bundle.attempt(f"pods/{name}/{container}.log", partial(read, container, previous=False))
        if container in restarted:
            bundle.attempt(f"pods/{name}/{container}.previous.log", partial(read, container, previous=True))


def _of_coordinators(bundle: Bundle, pods: Pods, cluster: Mapping[str, Any], live: Iterable[Mapping[str, Any]]) -> None:
    """Each coordinator is queried in its own pod, where the token is: their views of each other may differ."""
    argv = ["muster", "cluster", "status", f"--admin=localhost:{naming.ADMIN_PORT}", f"--token-file={TOKEN_FILE}"]

    def ask_one(pod: str) -> str:
        said = pods.run(pod, naming.COORDINATOR, [*argv, "--output=json"])
        if said.code not in (Exit.OK, Exit.INCOMPLETE):
            raise Trouble(f"exit code {said.code}: {said.err.strip()[:500]}")
        return said.out + said.err

    for pod in live:
        labels = pod["metadata"].get("labels", {})
        if labels.get(naming.COMPONENT_LABEL) != naming.COORDINATOR:
            continue
        if labels.get(naming.INSTANCE_LABEL) == cluster["metadata"]["name"]:
            name = pod["metadata"]["name"]
            bundle.attempt(f"coordinators/{name}.json", partial(ask_one, name))


def _of_operator(bundle: Bundle, namespace: str, log_lines: int) -> None:
    pods = Pods(namespace)
    try:
        live = pods.list(OPERATOR_SELECTOR)
    except Trouble as error:
        bundle.missing.append(f"operator: {error}")
        return
    if not live:
        bundle.missing.append(f"operator: namespace {namespace} has no pod with {OPERATOR_SELECTOR}")
    for pod in live:
        if log_lines:
            _logs(bundle, pods, pod, log_lines)
        name = pod["metadata"]["name"]
        bundle.attempt(f"metrics/{name}.txt", partial(pods.probe_page, name, naming.PROBE_PORT, "metrics"))
