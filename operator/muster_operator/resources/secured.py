"""What TLS, authentication and authorisation make of the settings file and of the pods: keys, volumes, mounts.

Every key, certificate and trust is a file of a mounted Secret. The kubelet brings it up to date, the coordinator reads
it again (ADR 51), so no change of a certificate is a new revision. What is in the Secrets is made and judged elsewhere
(`plan.certificates`); a pod whose Secret is not there yet is not started by its kubelet.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.api.security import SECRET, TLS
from muster_operator.resources.owned import Manifest
from muster_operator.resources.peer_mode import PeerMode
from muster_operator.world.views import OwnerView

TLS_DIR: Final = "/etc/muster-tls"
TRUST_DIR: Final = "/etc/muster-trust"
PEER_DIR: Final = "/etc/muster-peers"
PEER_LISTENER: Final = "peer"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Mounted(NamedTuple):
    """Files of one Secret in a pod."""

    volume: str
    secret: str
    folder: str
    files: dict[str, str]
    """The Secret's keys → file names."""

    def as_volume(self) -> Manifest:
        items = [{"key": key, "path": path} for key, path in self.files.items()]
        return {"name": self.volume, "secret": {"secretName": self.secret, "items": items, "defaultMode": 0o440}}

    def as_mount(self) -> Manifest:
        return {"name": self.volume, "mountPath": self.folder, "readOnly": True}


def mounted(owner: OwnerView, spec: ClusterSpec, peers: PeerMode) -> tuple[Mounted, ...]:
    """Everything beside settings and admin token. Two listeners with one certificate have a volume each."""
    return tuple(_mounted(owner, spec, peers))


def _mounted(owner: OwnerView, spec: ClusterSpec, peers: PeerMode) -> Iterator[Mounted]:
    if SECRET in peers.accepted:
        yield Mounted("peer-secret", naming.peer_secret(owner.name), PEER_DIR, {naming.PEER_KEY: "secret"})
    if TLS in peers.accepted:
        yield _certificate(PEER_LISTENER, naming.server_certificate(owner.name))
        yield _trust(PEER_LISTENER, naming.ca_certificates(naming.cluster_ca(owner.name)))
    for port in own_ports(spec):
        yield _certificate(port, naming.server_certificate(owner.name))
    for listener in spec.listeners:
        if listener.tls is not None:
            yield _certificate(listener.name, certificate_secret(owner, listener))
            if listener.authenticates_by == TLS:
                yield _trust(listener.name, trust_secret(owner, listener))


def own_ports(spec: ClusterSpec) -> tuple[str, ...]:
    """Ports of the coordinators' own that are https, by their names in settings and pods."""
    return tuple(name for name, port in (("admin", spec.admin), ("probe", spec.probes)) if port.tls)


def _certificate(listener: str, secret: str) -> Mounted:
    files = {naming.CERTIFICATE_KEY: "tls.crt", naming.PRIVATE_KEY: "tls.key"}
    return Mounted(f"tls-{listener}", secret, f"{TLS_DIR}/{listener}", files)


def _trust(listener: str, secret: str) -> Mounted:
    return Mounted(f"trust-{listener}", secret, f"{TRUST_DIR}/{listener}", {naming.CA_KEY: "ca.crt"})


def certificate_secret(owner: OwnerView, listener: Listener) -> str:
    """The Secret with the certificate of a listener with TLS."""
    tls = listener.tls
    if tls is not None and tls.secret_name is not None:
        return tls.secret_name
    if tls is not None and tls.issuer_ref is not None:
        return naming.listener_certificate(owner.name, listener.name)
    return naming.server_certificate(owner.name)


def trust_secret(owner: OwnerView, listener: Listener) -> str:
    """The Secret with the CAs of clients' certificates."""
    given = listener.tls.trusted_secret_name if listener.tls is not None else None
    return given or naming.ca_certificates(naming.clients_ca(owner.name))


def settings_of_peers(peers: PeerMode) -> dict[str, str]:
    """Of a mode that is not open."""
    found = {"muster.peer.security": peers.dials}
    if peers.besides:
        found["muster.peer.security.accept"] = ",".join(peers.besides)
    if SECRET in peers.accepted:
        found["muster.peer.secret.file"] = f"{PEER_DIR}/secret"
    return found


def settings(spec: ClusterSpec, peers: PeerMode) -> dict[str, str]:
    """What only a release with security knows. It is written for every release: one that does not know a key does not
    start, and none may start without it."""
    found: dict[str, str] = {}
    if TLS in peers.accepted:
        found |= _tls_settings(PEER_LISTENER, trusts=True)
    for port in own_ports(spec):
        found |= {f"muster.{port}.tls": "true"} | _tls_settings(port, trusts=False)
    for listener in spec.listeners:
        prefix = f"listener.name.{listener.name}"
        by_certificate = listener.authenticates_by == TLS
        if listener.tls is not None:
            found |= _tls_settings(listener.name, trusts=by_certificate)
        if by_certificate:
            found[f"{prefix}.ssl.client.auth"] = "required"
        if listener.mechanism is not None:
            found[f"{prefix}.sasl.enabled.mechanisms"] = listener.mechanism
    if spec.authorization is not None:
        own = (naming.OPERATOR_USER,) if spec.has_operator_user else ()
        if spec.passes_logins_on is not None:
            own = (f"${{env:{naming.UPSTREAM_USERNAME}}}",)
        users = dict.fromkeys((*own, *spec.authorization.super_users))
        found |= {
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(f"User:{name}" for name in users),
            "allow.everyone.if.no.acl.found": "false",
        }
        if spec.authorization.report_only:
            found["muster.authorizer.report.only"] = "true"
    return found


def _tls_settings(listener: str, *, trusts: bool) -> dict[str, str]:
    prefix = f"listener.name.{listener}.ssl"
    found = {
        f"{prefix}.keystore.certificate.chain": f"{TLS_DIR}/{listener}/tls.crt",
        f"{prefix}.keystore.key": f"{TLS_DIR}/{listener}/tls.key",
    }
    if trusts:
        found[f"{prefix}.truststore.certificates"] = f"{TRUST_DIR}/{listener}/ca.crt"
    return found
