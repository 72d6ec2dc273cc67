"""Where the end-to-end machinery keeps its files: everything below `.cache/`, so that `make clean` removes all of it.

`.cache/k8s/<key>/` holds the built cluster programs, `.cache/images/` OCI archives, `.cache/box/<name>/` the state of
a running box (logs of the last run stay there until the next one), `.cache/go/` Go's own caches.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
K8S = CACHE / "k8s"
IMAGES = CACHE / "images"
BOXES = CACHE / "box"
CLUSTER_SOURCE = ROOT / "e2e" / "cluster"
