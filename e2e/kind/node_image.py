"""The image of a kind node: Docker Hub's where that can be reached, else one made here from Debian and our own build.

Either is kept as one tar archive in `~/.cache/muster/k8s/`; ours is named by a hash of what it is made of. The
published image counts only where the kernel grants CAP_SYS_RESOURCE, for it has no way to do without. It comes by
skopeo, which needs no daemon, because a sandbox has no way out.
"""

import fcntl
import hashlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from e2e.kind import node_root
from e2e.kind.programs import Programs
from e2e.node import packages, paths
from e2e.node.build import KEY_CHARS, Tools
from e2e.node.errors import Unavailable
from e2e.node.images import Image

NAME = "muster.test/kind-node"
PUBLISHED = "kindest/node"
REGISTRY = "https://registry-1.docker.io/v2/"
PROBE_TIMEOUT_S = 3.0
COPY_TIMEOUT_S = 600.0
CAP_SYS_RESOURCE = 24  # linux/capability.h


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImage:
    """`name` is for kind. Docker loads `archive` if it is `published`, and imports it as a root folder if not."""

    name: str
    archive: Path
    published: bool


def ensure(tools: Tools, programs: Programs, pause: Image) -> NodeImage:
    """The image to use on this machine, made or fetched when it is not kept yet."""
    with _locked():
        if _granted(CAP_SYS_RESOURCE) and reachable():
            return _fetch(tools.kubernetes_version)
        return _make(tools, programs, pause)


def reachable(registry: str = REGISTRY) -> bool:
    """Whether it answers in PROBE_TIMEOUT_S as a registry does: without a token, mostly with 401."""
    try:
        urllib.request.urlopen(registry, timeout=PROBE_TIMEOUT_S).close()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code == HTTPStatus.UNAUTHORIZED
    except OSError:
        return False
    return True


def _granted(capability: int) -> bool:
    """Whether this process may hand on `capability` (proc(5), status)."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("CapBnd:")]
    return bool(int(line.split()[1], 16) >> capability & 1)


def _fetch(version: str) -> NodeImage:
    packages.ensure({"skopeo": "skopeo"})
    name = f"{PUBLISHED}:{version}"
    kept = paths.K8S / f"kind-node-{version}.tar"
    if not kept.exists():
        part = kept.with_suffix(".part")
        part.unlink(missing_ok=True)
        _run("skopeo", "copy", "--quiet", f"docker://docker.io/{name}", f"docker-archive:{part}:{name}")
        part.rename(kept)
    return NodeImage(name=name, archive=kept, published=True)


def _make(tools: Tools, programs: Programs, pause: Image) -> NodeImage:
    packages.ensure({"debootstrap": "debootstrap"})
    key = hashlib.sha256(node_root.ingredients(tools, programs)).hexdigest()[:KEY_CHARS]
    kept = paths.K8S / f"kind-node-{key}.tar"
    if not kept.exists():
        print("making the image of a kind node (once; 2 minutes) ...", file=sys.stderr, flush=True)
        for old in paths.K8S.glob("kind-node-*.tar"):
            old.unlink()
        with tempfile.TemporaryDirectory(dir=paths.K8S) as scratch:
            root, part = Path(scratch) / "root", Path(scratch) / "node.tar"
            node_root.make(root, tools, programs, pause)
            _run("tar", "--create", f"--file={part}", f"--directory={root}", "--one-file-system", ".")
            part.rename(kept)
    return NodeImage(name=f"{NAME}:{key}", archive=kept, published=False)


@contextmanager
def _locked() -> Iterator[None]:
    """Two runs at once: one makes, the other waits and finds it."""
    paths.K8S.mkdir(parents=True, exist_ok=True)
    with (paths.K8S / "lock-kind-node").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=COPY_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Unavailable(f"`{' '.join(argv[:2])} …` failed: {done.stderr.strip()[-500:]}")
