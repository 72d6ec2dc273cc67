"""Where the end-to-end machinery keeps its files.

Below `.cache/` of the checkout, so that `make clean` removes them: `images/` OCI archives, `sandbox/<name>/` the state
of a running sandbox (logs of the last run stay there until the next one), `go/` Go's own caches.

Below the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`, as the XDG specification says) `muster/k8s/<key>/`:
Kubernetes as it was built. That takes 11 processor minutes and depends on nothing but what its key is a hash of, so it
is done once a machine and not once a checkout. Beside it, `muster/cert-manager/<key>/`, likewise.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
K8S = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster" / "k8s"
CERT_MANAGER = K8S.with_name("cert-manager")
IMAGES = CACHE / "images"
SANDBOXES = CACHE / "box"
CLUSTER_SOURCE = ROOT / "e2e" / "cluster"
CERT_MANAGER_SOURCE = ROOT / "e2e" / "certmanager"
