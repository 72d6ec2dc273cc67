"""Images that only some tests need: loaded into the nodes when they ask, and made before there is a sandbox.

`python -m e2e.more_images` makes them, and cert-manager (a sandbox has no way out to download what they are of).
"""

import sys

from e2e.argo import controller
from e2e.kind import machines
from e2e.node import images, kubelet
from e2e.node.cert_manager import cert_manager
from e2e.node.images import Image
from e2e.node.session import Description
from tests import go_tools
from tests.pipeline.store import s3


def pipeline() -> Image:
    """`muster[pipeline]` and Java."""
    return images.pipeline()


def object_store() -> Image:
    """The S3 server of the pipeline's tests."""
    return images.program(go_tools.built(s3.MODULE, s3.PACKAGE), "versitygw")


def argo() -> Image:
    """Argo Rollouts' controller."""
    return controller.image()


def load(image: Image, node: Description) -> str:
    """Onto every node; returns its name, for a pod's `image:`."""
    if len(node.nodes) == 1:
        kubelet.import_image(image.archive)
    else:
        for name in node.nodes:
            machines.import_images(name, (image.archive,))
    return image.name


if __name__ == "__main__":
    for made in (pipeline(), object_store(), argo()):
        sys.stdout.write(f"{made.name}  {made.archive}\n")
    sys.stdout.write(f"cert-manager  {cert_manager().program}\n")
