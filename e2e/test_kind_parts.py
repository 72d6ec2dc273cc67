"""The pure parts of a cluster on kind: what kind is told, the network and routes of pods; and the scripts of a node."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from e2e.kind import bring_up, configuration, node_image, node_root, parts
from e2e.kind.configuration import CONTROL_PLANE, NODES, Member
from e2e.kind.make import Order
from e2e.kind.node_image import NodeImage
from e2e.node import inside
from e2e.node.errors import Broken

MEMBERS = [
    Member(name=name, address=f"10.79.0.{number}", pods=f"10.244.{number}.0/24") for number, name in enumerate(NODES, 2)
]


def written(state: Path, **changed: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"published": False, "cgroup_version": 1, **changed}
    found: dict[str, Any] = json.loads(configuration.cluster("image:1", state, **chosen))
    return found


def patch_of(config: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [one for one in map(json.loads, config["kubeadmConfigPatches"]) if one["kind"] == kind]
    assert isinstance(found, dict)
    return found


def test_a_control_plane_and_two_workers(tmp_path: Path) -> None:
    roles = [node["role"] for node in written(tmp_path)["nodes"]]
    assert roles == ["control-plane", "worker", "worker"]


def test_a_node_sees_its_own_volumes_only(tmp_path: Path) -> None:
    for name, node in zip(NODES, written(tmp_path)["nodes"], strict=True):
        volumes = [one for one in node["extraMounts"] if "/pv/" in one["hostPath"]]
        own = str(tmp_path / "pv" / name)
        assert volumes == [{"hostPath": own, "containerPath": own}]


def test_only_our_image_needs_another_cgroup_driver(tmp_path: Path) -> None:
    ours = patch_of(written(tmp_path), "KubeletConfiguration")
    assert (ours["cgroupDriver"], ours["failCgroupV1"]) == ("cgroupfs", False)
    assert patch_of(written(tmp_path, cgroup_version=2), "KubeletConfiguration")["failCgroupV1"] is True
    assert "cgroupDriver" not in patch_of(written(tmp_path, published=True), "KubeletConfiguration")


def test_the_audit_log_lies_where_the_tests_look(tmp_path: Path) -> None:
    config = written(tmp_path)
    flags = patch_of(config, "ClusterConfiguration")["apiServer"]["extraArgs"]
    (log,) = [one["value"] for one in flags if one["name"] == "audit-log-path"]
    mounts = {
        one["containerPath"]: one["hostPath"] for one in config["nodes"][NODES.index(CONTROL_PLANE)]["extraMounts"]
    }
    assert mounts[str(Path(log).parent)] == str(tmp_path / "logs")


def test_routes_lead_to_the_pods_of_the_others() -> None:
    assert configuration.routes(MEMBERS, at=NODES[1]) == (
        "route replace 10.244.2.0/24 via 10.79.0.2\nroute replace 10.244.4.0/24 via 10.79.0.4\n"
    )
    assert len(configuration.routes(MEMBERS, at=None).splitlines()) == 3, "the sandbox itself has no pods"


def test_pods_keep_their_address_between_nodes() -> None:
    cable, _ = json.loads(configuration.pod_network("10.244.2.0/24"))["plugins"]
    assert cable["ipMasq"] is False
    assert cable["ipam"]["ranges"] == [[{"subnet": "10.244.2.0/24"}]]


def node(member: Member, **spec: str) -> dict[str, Any]:
    addresses = [{"type": "Hostname", "address": member.name}, {"type": "InternalIP", "address": member.address}]
    return {"metadata": {"name": member.name}, "spec": spec, "status": {"addresses": addresses}}


def test_members_are_known_when_all_have_a_range() -> None:
    complete = [node(member, podCIDR=member.pods) for member in reversed(MEMBERS)]
    assert configuration.members(complete) == MEMBERS
    assert configuration.members(complete[:2]) is None, "one has not joined"
    assert configuration.members([*complete[:2], node(MEMBERS[0])]) is None, "one has no range yet"


@pytest.mark.parametrize(("failures", "made"), [(0, True), (1, True), (2, False)])
def test_a_cluster_that_did_not_come_up_is_made_once_more(tmp_path: Path, failures: int, made: bool) -> None:
    """kubeadm asks an API server that has just begun once as a node joins, and no second time."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "left").write_text("x" * failures)
    kind = tmp_path / "kind"
    kind.write_text(
        f"""#!/bin/sh
        echo "$1" >> {tmp_path}/asked
        [ "$1" = delete ] && exit 0
        [ -s {tmp_path}/left ] || exit 0
        truncate -s -1 {tmp_path}/left; echo "context deadline exceeded"; exit 1
        """
    )
    kind.chmod(0o755)
    if made:
        bring_up.make_cluster(kind, tmp_path)
    else:
        with pytest.raises(Broken, match="context deadline exceeded"):
            bring_up.make_cluster(kind, tmp_path)
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["create", *["delete", "create"] * min(failures, 1)]


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    image = NodeImage(name="a:1", archive=Path("/a.tar"), published=True)
    order = Order(kind=Path("/kind"), image=image, archives=(Path("/b.tar"),))
    order.write(tmp_path)
    assert Order.read(tmp_path) == order


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A server that says `status` to every request; its URL."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v2/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "registry"), [(200, True), (401, True), (403, False), (502, False)])
def test_a_proxy_that_refuses_is_no_registry(status: int, registry: bool) -> None:
    with answering(status) as url:
        assert node_image.reachable(url) is registry
    assert not node_image.reachable(url), "nobody listens any more"


def test_a_node_protects_the_same_settings_of_the_machine_as_a_sandbox() -> None:
    text = (node_root.FILES / "usr/local/bin/entrypoint").read_text()
    (listed,) = re.findall(r"for wanted in (.*); do", text)
    assert dict(one.split("=") for one in listed.split()) == inside.KERNEL_SETTINGS


def test_the_nodes_scripts_can_be_run() -> None:
    scripts = [path for path in node_root.FILES.rglob("*bin/*") if path.is_file()]
    assert len(scripts) == 3
    assert all(path.stat().st_mode & 0o111 == 0o111 for path in scripts)


def test_the_pods_sandbox_is_ours_and_all_else_one_image(tmp_path: Path) -> None:
    program = tmp_path / "kubeadm"
    program.write_text("#!/bin/sh\necho registry.example/etcd:3\necho registry.example/pause:3.10\n")
    program.chmod(0o755)
    assert parts.names(program, "v1.0.0") == [
        (parts.NAME, "registry.example/etcd:3"),
        ("muster.test/pause:1", "registry.example/pause:3.10"),
    ]
