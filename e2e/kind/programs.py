"""kubeadm and kind, built from Go modules like the cluster's own programs.

kubeadm comes from the module file of the cluster, so that it is of the same release as everything that it starts. kind
has a module file of its own.
"""

from dataclasses import dataclass
from pathlib import Path

from e2e.node import build, paths

KIND_SOURCE = paths.ROOT / "e2e" / "kind" / "program"
KIND_PACKAGE = "sigs.k8s.io/kind"
KUBEADM_PACKAGE = "k8s.io/kubernetes/cmd/kubeadm"
KIND_FLAGS = "-s -w"


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Paths of the two."""

    kubeadm: Path
    kind: Path


def ensure() -> Programs:
    """Both, building those whose key is new (2 minutes beside the caches that `make k8s` has filled)."""
    go_mod = (paths.CLUSTER_SOURCE / "go.mod").read_text()
    flags = build.link_flags(build.kubernetes_version(go_mod), go_mod)
    compiler = build.compiler()
    kubeadm = paths.K8S / f"kubeadm-{build.key(compiler, flags)}" / "kubeadm"
    kind = paths.K8S / f"kind-{build.key(compiler, KIND_FLAGS, KIND_SOURCE)}" / "kind"
    build.once(kubeadm, lambda out: build.compile_into(flags, out, KUBEADM_PACKAGE))
    build.once(kind, lambda out: build.compile_into(KIND_FLAGS, out, KIND_PACKAGE, source=KIND_SOURCE))
    return Programs(kubeadm=kubeadm, kind=kind)
