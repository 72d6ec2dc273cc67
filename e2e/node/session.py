"""What a person or CI does with a node: bring one up, run commands against it, take it down.

The description that tests read is `cluster.json` in the sandbox's state folder; STATE_VARIABLE in the environment of a
command inside the sandbox leads to it.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.node import build, images, network, paths
from e2e.node.build import Tools
from e2e.node.client import Client
from e2e.node.control_plane import ControlPlane
from e2e.node.errors import Broken
from e2e.node.images import Images
from e2e.node.inside import NODE_NAME
from e2e.node.sandbox import Sandbox

STATE_VARIABLE = "MUSTER_E2E_STATE"
BRING_UP_TIMEOUT_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A running cluster: where its kubeconfig and logs lie, its nodes, and the names of our images on them."""

    state: Path
    kubeconfig: Path
    nodes: Mapping[str, str]
    """Name → address, the control plane's first."""
    muster_image: str
    demo_image: str
    redis_image: str
    tools: Tools

    @classmethod
    def read(cls, state: Path) -> "Description":
        found: dict[str, Any] = json.loads((state / "cluster.json").read_text())
        tools = Tools(folder=Path(found["tools"]), kubernetes_version=found["kubernetes_version"])
        return cls(
            state=state,
            kubeconfig=Path(found["kubeconfig"]),
            nodes=found["nodes"],
            muster_image=found["muster_image"],
            demo_image=found["demo_image"],
            redis_image=found["redis_image"],
            tools=tools,
        )

    def write(self) -> None:
        values = {
            "kubeconfig": str(self.kubeconfig),
            "nodes": dict(self.nodes),
            "muster_image": self.muster_image,
            "demo_image": self.demo_image,
            "redis_image": self.redis_image,
            "tools": str(self.tools.folder),
            "kubernetes_version": self.tools.kubernetes_version,
        }
        (self.state / "cluster.json").write_text(json.dumps(values, indent=1))

    def client(self, namespace: str = "default") -> Client:
        return Client(tools=self.tools, kubeconfig=self.kubeconfig, namespace=namespace)

    def variables(self) -> dict[str, str]:
        """What a command inside the sandbox gets on top of its environment."""
        path = f"{self.tools.folder}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path, STATE_VARIABLE: str(self.state)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a `Maker` has brought up."""

    kubeconfig: Path
    nodes: Mapping[str, str]


Maker = Callable[[Tools, Images], Callable[[Sandbox], Made]]
"""How a cluster is made, in two steps: what can be built before there is a sandbox, and what runs in it."""


def one_node(_tools: Tools, built: Images) -> Callable[[Sandbox], Made]:
    """A `Maker`: a node in the sandbox itself."""

    def bring_up(sandbox: Sandbox) -> Made:
        argv = [sys.executable, "-m", "e2e.node.bring_up", str(sandbox.state), *map(str, built.archives())]
        if sandbox.run(argv, timeout_s=BRING_UP_TIMEOUT_S) != 0:
            raise Broken(f"no node; the logs are in {sandbox.logs.relative_to(paths.ROOT)}")
        return Made(kubeconfig=sandbox.state / "pki" / "admin.kubeconfig", nodes={NODE_NAME: network.NODE_ADDRESS})

    return bring_up


def up(sandbox: Sandbox, maker: Maker, *, tied: bool) -> Description:
    """A sandbox with a Ready cluster and our images. Nothing is left of it when this raises."""
    tools = build.build()
    built = images.build(tools)
    bring_up = maker(tools, built)
    sandbox.up(tied=tied)
    try:
        made = bring_up(sandbox)
        description = Description(
            state=sandbox.state,
            kubeconfig=made.kubeconfig,
            nodes=made.nodes,
            muster_image=built.muster.name,
            demo_image=built.demo.name,
            redis_image=built.redis.name,
            tools=tools,
        )
        description.write()
    except BaseException:
        sandbox.down()
        raise
    return description


def inside(sandbox: Sandbox, argv: Sequence[str], timeout_s: float) -> int:
    """Run `argv` in a sandbox that is up; its exit status."""
    if not (sandbox.state / "cluster.json").exists():
        raise Broken(f"box {sandbox.name} is not up; start it with `make e2e-up`, or `make kind-up` for three nodes")
    return sandbox.run(argv, timeout_s=timeout_s, env=Description.read(sandbox.state).variables())


def run(sandbox: Sandbox, maker: Maker, argv: Sequence[str], timeout_s: float) -> int:
    """Up, `argv` inside, down; down also when this process is interrupted, and by the kernel when it is killed."""
    try:
        description = up(sandbox, maker, tied=True)
        return sandbox.run(argv, timeout_s=timeout_s, env=description.variables())
    finally:
        sandbox.down()


def api_only(state: Path, *, controllers: bool = False) -> ControlPlane:
    """A started control plane on free loopback ports; needs neither root nor a sandbox. The caller stops it."""
    plane = ControlPlane(tools=build.build(), state=state, logs=state / "logs", node=NODE_NAME)
    plane.start(controllers=controllers)
    return plane
