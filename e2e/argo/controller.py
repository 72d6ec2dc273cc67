"""Argo Rollouts' own controller on the node, installed as its documentation says.

Program and manifest are of one release, which the module file pins: the program is built from that Go module, the
manifest (definitions, roles, Deployment) is the module's own file, kept beside the program so that a sandbox, which has
no way out, finds both. Two words of the Deployment are changed: the image, which is ours with the program in it, and
its pull policy.

Not here: Argo's analysis runs, traffic routing and its dashboard; no test needs them.
"""

import json
import shutil
import subprocess
from pathlib import Path

from e2e.node import build, images, paths
from e2e.node.client import Client
from e2e.node.errors import Broken, Unavailable
from e2e.node.images import Image

SOURCE = paths.ROOT / "e2e" / "argo" / "program"
MODULE = "github.com/argoproj/argo-rollouts"
PACKAGE = f"{MODULE}/cmd/rollouts-controller"
PROGRAM = "rollouts-controller"
MANIFEST = "install.yaml"
FLAGS = "-s -w"
NAMESPACE = "argo-rollouts"
"""Its role bindings name it."""
READY_S = 180.0
LIST_TIMEOUT_S = 300.0


def ensure() -> Path:
    """The folder with program and manifest, built when its key is new. `Unavailable` without Go or its modules."""
    folder = paths.K8S / f"argo-{build.key(build.compiler(), FLAGS, SOURCE)}"

    def make(out: Path) -> None:
        build.compile_into(FLAGS, out, PACKAGE, source=SOURCE)
        shutil.copy(_module() / "manifests" / MANIFEST, out.with_name(MANIFEST))

    build.once(folder / PROGRAM, make)
    return folder


def image() -> Image:
    return images.program(ensure() / PROGRAM, PROGRAM)


def install(client: Client, image_name: str) -> None:
    """Served and Ready. `remove` takes it away, with every Rollout."""
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    own = client.within(NAMESPACE)
    own.kubectl("apply", "--server-side", "--filename=-", given=_manifest(image_name))
    own.kubectl("rollout", "status", "deployment/argo-rollouts", f"--timeout={READY_S:.0f}s", timeout_s=READY_S + 10)


def remove(client: Client, image_name: str) -> None:
    own = client.within(NAMESPACE)
    own.kubectl("delete", "--ignore-not-found", "--filename=-", given=_manifest(image_name))
    client.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _manifest(image_name: str) -> str:
    text = (ensure() / MANIFEST).read_text()
    for theirs, ours in (
        ("image: quay.io/argoproj/argo-rollouts:latest", f"image: {image_name}"),
        ("imagePullPolicy: Always", "imagePullPolicy: Never"),
    ):
        if text.count(theirs) != 1:
            raise Broken(f"{MANIFEST} of {MODULE} has {theirs!r} {text.count(theirs)} times")
        text = text.replace(theirs, ours)
    return text


def _module() -> Path:
    """The module's folder, which the build has downloaded."""
    done = subprocess.run(
        ["go", "list", "-m", "-json", MODULE],
        cwd=SOURCE, env=build.go_environment(), capture_output=True, text=True, timeout=LIST_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Unavailable(f"`go list -m {MODULE}` failed: {done.stderr.strip()[-300:]}")
    return Path(json.loads(done.stdout)["Dir"])
