"""What a person or CI does with a node: bring one up, run commands against it, take it down.

The description that tests read is `cluster.json` in the box's state folder; STATE_VARIABLE in the environment of a
command inside the box leads to it.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.node import build, images, paths
from e2e.node.box import Box
from e2e.node.build import Tools
from e2e.node.client import Client
from e2e.node.control_plane import ControlPlane
from e2e.node.errors import Broken
from e2e.node.inside import NODE_NAME

STATE_VARIABLE = "MUSTER_E2E_STATE"
BRING_UP_TIMEOUT_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A running node: where its kubeconfig and logs lie, and the names of our images on it."""

    state: Path
    kubeconfig: Path
    muster_image: str
    demo_image: str
    tools: Tools

    @classmethod
    def read(cls, state: Path) -> "Description":
        found: dict[str, Any] = json.loads((state / "cluster.json").read_text())
        tools = Tools(folder=Path(found["tools"]), kubernetes_version=found["kubernetes_version"])
        return cls(
            state=state,
            kubeconfig=Path(found["kubeconfig"]),
            muster_image=found["muster_image"],
            demo_image=found["demo_image"],
            tools=tools,
        )

    def write(self) -> None:
        values = {
            "kubeconfig": str(self.kubeconfig),
            "muster_image": self.muster_image,
            "demo_image": self.demo_image,
            "tools": str(self.tools.folder),
            "kubernetes_version": self.tools.kubernetes_version,
        }
        (self.state / "cluster.json").write_text(json.dumps(values, indent=1))

    def client(self, namespace: str = "default") -> Client:
        return Client(tools=self.tools, kubeconfig=self.kubeconfig, namespace=namespace)

    def variables(self) -> dict[str, str]:
        """What a command inside the box gets on top of its environment."""
        path = f"{self.tools.folder}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": path, STATE_VARIABLE: str(self.state)}


def up(box: Box, *, tied: bool) -> Description:
    """A box with a Ready node and our images. Nothing is left of it when this raises."""
    tools = build.build()
    built = images.build(tools)
    box.up(tied=tied)
    try:
        argv = [sys.executable, "-m", "e2e.node.bring_up", str(box.state), *map(str, built.archives())]
        if box.run(argv, timeout_s=BRING_UP_TIMEOUT_S) != 0:
            raise Broken(f"no node; the logs are in {box.logs.relative_to(paths.ROOT)}")
        description = Description(
            state=box.state,
            kubeconfig=box.state / "pki" / "admin.kubeconfig",
            muster_image=built.muster.name,
            demo_image=built.demo.name,
            tools=tools,
        )
        description.write()
    except BaseException:
        box.down()
        raise
    return description


def inside(box: Box, argv: Sequence[str], timeout_s: float) -> int:
    """Run `argv` in a box that is up; its exit status."""
    if not (box.state / "cluster.json").exists():
        raise Broken(f"box {box.name} is not up; start it with `make e2e-up`")
    return box.run(argv, timeout_s=timeout_s, env=Description.read(box.state).variables())


def run(box: Box, argv: Sequence[str], timeout_s: float) -> int:
    """Up, `argv` inside, down; down also when this process is interrupted, and by the kernel when it is killed."""
    try:
        description = up(box, tied=True)
        return box.run(argv, timeout_s=timeout_s, env=description.variables())
    finally:
        box.down()


def api_only(state: Path, *, controllers: bool = False) -> ControlPlane:
    """A started control plane on free loopback ports; needs neither root nor a box. The caller stops it."""
    plane = ControlPlane(tools=build.build(), state=state, logs=state / "logs", node=NODE_NAME)
    plane.start(controllers=controllers)
    return plane
