"""Run inside a fresh sandbox: from nothing to three Ready nodes with images, volumes and names.

kind starts the containers and lets kubeadm make and join the cluster. The network of the pods, the volumes, and what
the test process in the sandbox needs to reach pods, Services and names are ours: the sandbox has a route to the pods of
every node, to Services by the control plane's node, and a CoreDNS on its own address. Nodes look up each other's names
there.
"""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.kind import configuration, machines, node_root
from e2e.kind.configuration import CLUSTER, CONTROL_PLANE, NODES, Member
from e2e.kind.make import Order
from e2e.node import build, cgroups, daemon, kubelet, network, volumes
from e2e.node.build import Tools
from e2e.node.client import Client, Refused
from e2e.node.control_plane import AUDIT_POLICY
from e2e.node.daemon import Daemon
from e2e.node.errors import Broken, NodeError

CREATE_TIMEOUT_S = 300.0
READY_TIMEOUT_S = 120.0
VOLUMES_A_NODE = 30
ROUTES = "/etc/muster-node/routes"
TAINT = "node-role.kubernetes.io/control-plane:NoSchedule-"
EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers-"


def bring_up(state: Path) -> None:
    """Raises `NodeError` when a part does not come up; the sandbox's owner then removes everything."""
    began = time.monotonic()
    tools, order, logs = build.build(), Order.read(state), state / "logs"

    def report(what: str) -> None:
        print(f"  {time.monotonic() - began:5.1f} s  {what}", flush=True)

    _write_files(state, order)
    docker = machines.start_daemon(state, logs)
    machines.prepare(order.image, cgroup_version=cgroups.hierarchies()[0].version)
    report(f"Docker with the nodes' image ({'published' if order.image.published else 'made here'})")
    _create(order.kind, state)
    client = Client(tools=tools, kubeconfig=state / "admin.kubeconfig")
    joined = _members(client)
    (state / "nodes.json").write_text(json.dumps({member.name: member.address for member in joined}))
    report("control plane and nodes joined")
    names = _connect(joined, tools, state)
    with ThreadPoolExecutor(max_workers=len(joined)) as others:
        list(others.map(lambda member: _furnish(member, joined, order), joined))
    report(f"{len(order.archives)} images on every node")
    _schedule(client, state)
    _wait_ready(client, [docker, names])
    report("nodes Ready")
    print(client.kubectl("get", "nodes", "--output=wide"), flush=True)


def _write_files(state: Path, order: Order) -> None:
    for node in NODES:
        configuration.volumes_of(node, state).mkdir(parents=True)
    (state / "nodes-resolv.conf").write_text(f"nameserver {network.NODE_ADDRESS}\n")
    (state / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
    version = cgroups.hierarchies()[0].version
    text = configuration.cluster(order.image.name, state, published=order.image.published, cgroup_version=version)
    (state / "kind.json").write_text(text)


def _create(kind: Path, state: Path) -> None:
    """The cluster, with an administrator's kubeconfig that names the API server by its address."""
    make_cluster(kind, state)
    told = subprocess.run(
        [str(kind), "get", "kubeconfig", "--internal", f"--name={CLUSTER}"],
        capture_output=True, text=True, timeout=machines.CALL_TIMEOUT_S, check=True,
    ).stdout  # fmt: skip
    own = told.replace(f"https://{CONTROL_PLANE}:", f"https://{machines.address(CONTROL_PLANE)}:")
    (state / "admin.kubeconfig").write_text(own)
    (state / "admin.kubeconfig").chmod(0o600)


def make_cluster(kind: Path, state: Path) -> None:
    """`kind create cluster`, and once more if that fails: kubeadm gives an API server that has just begun 10 s for one
    answer as a node joins, and asks no second time."""
    name = f"--name={CLUSTER}"
    create = [str(kind), "create", "cluster", f"--config={state / 'kind.json'}", "--retain",
              f"--kubeconfig={state / 'kind.kubeconfig'}"]  # fmt: skip
    with (state / "logs" / "kind.log").open("wb") as log:

        def run(argv: list[str]) -> int:
            found = subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, timeout=CREATE_TIMEOUT_S, check=False)
            return found.returncode

        code = run(create)
        if code != 0:
            run([str(kind), "delete", "cluster", name])
            code = run(create)
    if code != 0:
        raise Broken(f"kind ended with {code}; logs/kind.log:\n{daemon.tail(state / 'logs' / 'kind.log')}")


def _members(client: Client) -> list[Member]:
    found: list[list[Member]] = []

    def complete() -> bool:
        members = configuration.members(client.read("nodes")["items"])
        found.extend([members] if members else [])
        return bool(found)

    daemon.until("three nodes with an address and a range of pods", complete, READY_TIMEOUT_S)
    return found[0]


def _connect(joined: list[Member], tools: Tools, state: Path) -> Daemon:
    """The sandbox's routes, and names."""
    text = configuration.routes(joined, at=None)
    text += f"route replace {configuration.SERVICE_RANGE} via {_address(joined, CONTROL_PLANE)}\n"
    _ip("-batch", "-", given=text)
    _ip("-netns", network.OUTSIDE, "route", "replace", machines.SUBNET, "via", network.NODE_ADDRESS)
    hosts = {member.name: member.address for member in joined}
    corefile = kubelet.dns_config(state / "admin.kubeconfig", context=f"kind-{CLUSTER}", hosts=hosts)
    return kubelet.start_dns(tools, corefile, state, state / "logs")


def _address(joined: list[Member], name: str) -> str:
    return next(member.address for member in joined if member.name == name)


def _furnish(member: Member, joined: list[Member], order: Order) -> None:
    """One node's network and images. The routes are a unit's, so that they come back with the node."""

    def put(path: str, text: str) -> None:
        machines.inside(member.name, "sh", "-c", 'mkdir -p "${0%/*}" && cat > "$0"', path, given=text)

    put(ROUTES, configuration.routes(joined, at=member.name))
    if order.image.published:
        unit = "/etc/systemd/system/muster-routes.service"
        put(unit, (node_root.FILES / unit.lstrip("/")).read_text())
        machines.inside(member.name, "systemctl", "enable", "muster-routes")
    machines.inside(member.name, "systemctl", "start", "muster-routes")
    machines.import_images(member.name, order.archives)
    put("/etc/cni/net.d/10-muster.conflist", configuration.pod_network(member.pods))  # last: now pods may come


def _schedule(client: Client, state: Path) -> None:
    """Pods on all three nodes, and volumes."""
    client.kubectl("taint", "node", CONTROL_PLANE, TAINT)
    client.kubectl("label", "node", CONTROL_PLANE, EXCLUDED)
    client.kubectl("delete", "storageclass", "--all")
    folders = {node: configuration.volumes_of(node, state) for node in NODES}
    client.kubectl("create", "--filename=-", given=volumes.manifests(folders, VOLUMES_A_NODE))


def _wait_ready(client: Client, alive: list[Daemon]) -> None:
    def ready() -> bool:
        try:
            nodes = client.read("nodes")["items"]
        except Refused:
            return False
        conditions = [one for node in nodes for one in node["status"].get("conditions", ()) if one["type"] == "Ready"]
        return len(nodes) == len(NODES) and all(one["status"] == "True" for one in conditions)

    daemon.until("three Ready nodes", ready, READY_TIMEOUT_S, alive)
    system = client.within("kube-system")
    limit = f"--timeout={READY_TIMEOUT_S:.0f}s"
    for workload in ("daemonset/kube-proxy", "deployment/coredns"):
        system.kubectl("rollout", "status", workload, limit, timeout_s=READY_TIMEOUT_S + 5)
    daemon.until("DNS", kubelet.dns_answers, READY_TIMEOUT_S, alive)


def _ip(*words: str, given: str | None = None) -> None:
    done = subprocess.run(["ip", *words], input=given, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise Broken(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")


def main() -> None:
    try:
        bring_up(Path(sys.argv[1]))
    except NodeError as error:
        sys.exit(f"the nodes did not come up: {error}")


if __name__ == "__main__":
    main()
