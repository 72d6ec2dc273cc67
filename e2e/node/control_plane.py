"""etcd and kube-apiserver, and if wanted kube-controller-manager and kube-scheduler, one process each.

Two users: the sandbox, on the node's address with everything, and the API-only rung on loopback, where several may run
at once on free ports. The flags are those of a hardened default cluster (Node and RBAC authorisation, NodeRestriction,
Pod Security, service-account tokens, an aggregation CA; as on OpenShift owner references that block deletion need
`finalizers` rights) except that etcd does not sync its disk.

Requests of service accounts are recorded in `audit.log`, so that a test can hold a role against the verbs used.
"""

import json
import socket
import ssl
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.node import daemon, network, pki
from e2e.node.build import Tools
from e2e.node.daemon import Daemon

READY_TIMEOUT_S = 90.0
PROBE_TIMEOUT_S = 3.0
LOOPBACK = "127.0.0.1"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


KEPT = 'trap "kill \\$child; exit 0" TERM; while :; do "$@" & child=$!; wait $child; sleep 1; done'
"""Runs a program again whenever it ends, until TERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Of the API server and etcd's two."""

    api: int
    etcd_client: int
    etcd_peer: int


IN_A_SANDBOX = Ports(api=6443, etcd_client=2379, etcd_peer=2380)


def free_ports() -> Ports:
    """Three ports that are free on loopback now."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(3)]
    api, client, peer = (each.getsockname()[1] for each in sockets)
    for each in sockets:
        each.close()
    return Ports(api=api, etcd_client=client, etcd_peer=peer)


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """A control plane with its files in `state` and its logs in `logs`; `start` it, `stop` it."""

    tools: Tools
    state: Path
    logs: Path
    node: str
    address: str = LOOPBACK
    ports: Ports = field(default_factory=free_ports)
    dies_with_starter: bool = True
    daemons: list[Daemon] = field(default_factory=list)
    authority: pki.Authority | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.state / "pki" / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    def start(self, *, controllers: bool) -> None:
        """Returns when the API is ready and, with `controllers`, the default service account exists."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        fixed = ["DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc"]
        addresses = {LOOPBACK, self.address, network.SERVICE_OF_API}
        self.authority = pki.create(
            self.state / "pki",
            node=self.node,
            server=f"https://{self.address}:{self.ports.api}",
            server_names=[*fixed, *(f"IP:{address}" for address in sorted(addresses))],
            node_addresses=[f"IP:{self.address}"],
        )
        try:
            self._start("etcd", self._etcd_flags())
            (self.state / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
            self._start("kube-apiserver", self._apiserver_flags(self.authority))
            daemon.until("ready API server", self._ready, READY_TIMEOUT_S, self.daemons)
            if controllers:
                self._keep("kube-controller-manager", self._controller_flags(self.authority))
                self._keep("kube-scheduler", self._client_flags(self.authority, "scheduler"))
                path = "/api/v1/namespaces/default/serviceaccounts/default"
                daemon.until(
                    "default service account", lambda: self.get(path) is not None, READY_TIMEOUT_S, self.daemons
                )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all, the API server before etcd."""
        while self.daemons:
            self.daemons.pop().stop()

    def get(self, path: str) -> bytes | None:
        """The body at `path` of the API as admin, None when it answers an error or not at all."""
        pki_folder = self.state / "pki"
        context = ssl.create_default_context(cafile=str(pki_folder / "ca.crt"))
        context.load_cert_chain(pki_folder / "admin.crt", pki_folder / "admin.key")
        url = f"https://{self.address}:{self.ports.api}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PROBE_TIMEOUT_S, context=context) as answer:
                body: bytes = answer.read()
        except OSError:  # URLError, refused and slow connections
            return None
        return body

    def _ready(self) -> bool:
        return self.get("/readyz") == b"ok"

    def _start(self, name: str, flags: Sequence[str]) -> None:
        argv: list[str | Path] = [self.tools.path(name), *flags]
        self.daemons.append(daemon.start(name, argv, self.logs, dies_with_starter=self.dies_with_starter))

    def _keep(self, name: str, flags: Sequence[str]) -> None:
        """As a kubelet keeps a static pod: these end by themselves when what they watched has gone on without them, as
        the scheduler does when a pod of the same name was bound anew while the API server was away."""
        if self.dies_with_starter:
            self._start(name, flags)
            return
        argv: list[str | Path] = ["/bin/sh", "-c", KEPT, name, self.tools.path(name), *flags]
        self.daemons.append(daemon.start(name, argv, self.logs, dies_with_starter=False))

    def _etcd_flags(self) -> list[str]:
        client = f"http://{LOOPBACK}:{self.ports.etcd_client}"
        peer = f"http://{LOOPBACK}:{self.ports.etcd_peer}"
        return [
            f"--data-dir={self.state / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_flags(self, keys: pki.Authority) -> list[str]:
        flags = [
            f"--etcd-servers=http://{LOOPBACK}:{self.ports.etcd_client}",
            f"--secure-port={self.ports.api}",
            f"--bind-address={'0.0.0.0' if self.address != LOOPBACK else LOOPBACK}",
            f"--advertise-address={self.address}",
            f"--service-cluster-ip-range={network.SERVICE_RANGE}",
            f"--client-ca-file={keys.crt('ca')}",
            f"--tls-cert-file={keys.crt('apiserver')}",
            f"--tls-private-key-file={keys.key('apiserver')}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys.folder / 'sa.pub'}",
            f"--service-account-signing-key-file={keys.key('sa')}",
            f"--kubelet-client-certificate={keys.crt('apiserver-kubelet-client')}",
            f"--kubelet-client-key={keys.key('apiserver-kubelet-client')}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--proxy-client-cert-file={keys.crt('front-proxy-client')}",
            f"--proxy-client-key-file={keys.key('front-proxy-client')}",
            f"--requestheader-client-ca-file={keys.crt('ca')}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true",
            f"--audit-policy-file={self.state / 'audit-policy.json'}",
            f"--audit-log-path={self.audit_log}",
        ]
        if self.address == LOOPBACK:  # refused as the endpoint of the Service "kubernetes"
            flags.append("--endpoint-reconciler-type=none")
        return flags

    def _client_flags(self, keys: pki.Authority, user: str) -> list[str]:
        path = keys.kubeconfig(user)
        return [
            f"--kubeconfig={path}",
            f"--authentication-kubeconfig={path}",
            f"--authorization-kubeconfig={path}",
            "--secure-port=0",
            "--leader-elect=false",
        ]

    def _controller_flags(self, keys: pki.Authority) -> list[str]:
        return [
            *self._client_flags(keys, "controller-manager"),
            "--use-service-account-credentials=true",
            f"--root-ca-file={keys.crt('ca')}",
            f"--service-account-private-key-file={keys.key('sa')}",
            f"--cluster-signing-cert-file={keys.crt('ca')}",
            f"--cluster-signing-key-file={keys.key('ca')}",
        ]
