"""Run inside a fresh sandbox: from nothing to a Ready node with images, volumes and DNS.

Order matters for time only: containerd starts and imports while the API server does, images before the kubelet, so
that no pod ever looks for one that is still being imported.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.node import build, daemon, kubelet, network, volumes
from e2e.node.client import Client, Refused
from e2e.node.control_plane import IN_A_SANDBOX, ControlPlane
from e2e.node.errors import NodeError
from e2e.node.inside import NODE_NAME

NODE_READY_TIMEOUT_S = 60.0


def bring_up(state: Path, images: list[Path]) -> None:
    """Raises `NodeError` when a part does not come up; the sandbox's owner then removes everything."""
    began = time.monotonic()
    tools = build.build()
    logs = state / "logs"

    def report(what: str) -> None:
        print(f"  {time.monotonic() - began:5.1f} s  {what}", flush=True)

    plane = ControlPlane(
        tools=tools, state=state, logs=logs, node=NODE_NAME,
        address=network.NODE_ADDRESS, ports=IN_A_SANDBOX, dies_with_starter=False,
    )  # fmt: skip
    with ThreadPoolExecutor(max_workers=1) as other:
        control = other.submit(plane.start, controllers=True)
        folder = state / "node"
        # Its authority exists only once the control plane has started; containerd needs none of it.
        runtime = kubelet.start_containerd(folder, logs)
        for image in images:
            kubelet.import_image(image)
        report(f"{len(images)} images imported")
        control.result()
    report("control plane ready")
    assert plane.authority is not None
    programs = kubelet.NodePrograms(tools=tools, authority=plane.authority, node=NODE_NAME, folder=folder, logs=logs)
    client = Client(tools=tools, kubeconfig=plane.kubeconfig)
    client.kubectl("create", "clusterrolebinding", "muster-e2e-node-proxier",
                   "--clusterrole=system:node-proxier", "--user=system:kube-proxy")  # fmt: skip
    started = [runtime, programs.kubelet(), programs.proxy(), programs.dns()]
    client.kubectl("create", "--filename=-", given=volumes.manifests({NODE_NAME: state / "pv"}))

    def ready() -> bool:
        try:
            node = client.read("node", NODE_NAME)
        except Refused:
            return False
        return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))

    alive = [*started, *plane.daemons]
    daemon.until("Ready node", ready, NODE_READY_TIMEOUT_S, alive)
    daemon.until("DNS", kubelet.dns_answers, NODE_READY_TIMEOUT_S, alive)
    report("node Ready")


def main() -> None:
    try:
        bring_up(Path(sys.argv[1]), [Path(image) for image in sys.argv[2:]])
    except NodeError as error:
        sys.exit(f"the node did not come up: {error}")


if __name__ == "__main__":
    main()
