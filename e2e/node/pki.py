"""Certificates and kubeconfigs of a test cluster: one authority, one certificate for each part, made by openssl.

Names follow Kubernetes' "PKI certificates and requirements". A kubeconfig carries its key material inside, so one file
is enough wherever it is read. Keys live as long as the cluster; nothing here is fit for production.
"""

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.node.errors import Broken

VALID_DAYS = 365
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
# file -> subject; those with a kubeconfig below.
SUBJECTS: Mapping[str, str] = {
    "apiserver": "/CN=kube-apiserver",
    "apiserver-kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
    "front-proxy-client": "/CN=front-proxy-client",
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "dns": "/O=system:masters/CN=coredns",
}
USERS = ("admin", "controller-manager", "scheduler", "proxy", "dns", "kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A folder with ca.{crt,key}, <name>.{crt,key}, sa.{key,pub} and <user>.kubeconfig."""

    folder: Path

    def crt(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"


def create(
    folder: Path, *, node: str, server: str, server_names: Sequence[str], node_addresses: Sequence[str]
) -> Authority:
    """Everything in `folder`. `server` is the API's URL; the names are subject alternative names (DNS:… or IP:…)."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Authority(folder=folder)
    _openssl("req", "-x509", *CURVE, "-subj", "/CN=muster-e2e", "-days", str(VALID_DAYS),
             "-keyout", made.key("ca"), "-out", made.crt("ca"))  # fmt: skip
    for name, subject in SUBJECTS.items():
        _certificate(made, name, subject, server_names if name == "apiserver" else ())
    _certificate(made, "kubelet", f"/O=system:nodes/CN=system:node:{node}", (f"DNS:{node}", *node_addresses))
    _openssl("genrsa", "-out", made.key("sa"), "2048")
    _openssl("rsa", "-in", made.key("sa"), "-pubout", "-out", folder / "sa.pub")
    for user in USERS:
        made.kubeconfig(user).write_text(kubeconfig(made, user, server))
        made.kubeconfig(user).chmod(0o600)
    return made


def _certificate(made: Authority, name: str, subject: str, alternatives: Sequence[str]) -> None:
    extensions = ["-addext", "extendedKeyUsage=clientAuth,serverAuth", "-addext", "basicConstraints=critical,CA:false"]
    if alternatives:
        extensions += ["-addext", f"subjectAltName={','.join(alternatives)}"]
    _openssl("req", "-x509", *CURVE, "-subj", subject, "-days", str(VALID_DAYS), "-CA", made.crt("ca"),
             "-CAkey", made.key("ca"), *extensions, "-keyout", made.key(name), "-out", made.crt(name))  # fmt: skip


def kubeconfig(made: Authority, user: str, server: str) -> str:
    """A kubeconfig (JSON is YAML) for `user` with its keys inside."""

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": inline(made.crt("ca"))}
    keys = {"client-certificate-data": inline(made.crt(user)), "client-key-data": inline(made.key(user))}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "muster",
            "contexts": [{"name": "muster", "context": {"cluster": "muster", "user": user}}],
            "clusters": [{"name": "muster", "cluster": cluster}],
            "users": [{"name": user, "user": keys}],
        },
        indent=1,
    )


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Broken(f"openssl {words[0]} failed: {done.stderr.strip()[-500:]}")
