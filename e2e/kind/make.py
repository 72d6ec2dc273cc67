"""Makes a cluster of three nodes in a sandbox: what can be built first, then all that happens inside.

The part inside runs in a process of its own (e2e.kind.bring_up), which is told everything by a file in the sandbox's
state.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.kind import node_image, programs
from e2e.kind.node_image import NodeImage
from e2e.node import packages, paths
from e2e.node.build import Tools
from e2e.node.errors import Broken
from e2e.node.images import Images
from e2e.node.sandbox import Sandbox
from e2e.node.session import Made

BRING_UP_TIMEOUT_S = 540.0
NEEDS = {"dockerd": "docker.io", "docker": "docker.io"}
ORDER = "kind-order.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to bring up: kind's program, the nodes' image, and the archives of ours that every node gets."""

    kind: Path
    image: NodeImage
    archives: tuple[Path, ...]

    def write(self, state: Path) -> None:
        values = {
            "kind": str(self.kind),
            "image": {"name": self.image.name, "archive": str(self.image.archive), "published": self.image.published},
            "archives": [str(archive) for archive in self.archives],
        }
        (state / ORDER).write_text(json.dumps(values))

    @classmethod
    def read(cls, state: Path) -> "Order":
        found = json.loads((state / ORDER).read_text())
        image = found["image"]
        return cls(
            kind=Path(found["kind"]),
            image=NodeImage(name=image["name"], archive=Path(image["archive"]), published=image["published"]),
            archives=tuple(Path(archive) for archive in found["archives"]),
        )


def three_nodes(tools: Tools, built: Images) -> Callable[[Sandbox], Made]:
    """A `Maker` (e2e.node.session)."""
    packages.ensure(NEEDS)
    made = programs.ensure()
    image = node_image.ensure(tools, made, built.pause)
    order = Order(kind=made.kind, image=image, archives=tuple(built.archives()))

    def bring_up(sandbox: Sandbox) -> Made:
        order.write(sandbox.state)
        if (
            sandbox.run([sys.executable, "-m", "e2e.kind.bring_up", str(sandbox.state)], timeout_s=BRING_UP_TIMEOUT_S)
            != 0
        ):
            raise Broken(f"no three nodes; the logs are in {sandbox.logs.relative_to(paths.ROOT)}")
        nodes: dict[str, str] = json.loads((sandbox.state / "nodes.json").read_text())
        return Made(kubeconfig=sandbox.state / "admin.kubeconfig", nodes=nodes)

    return bring_up
