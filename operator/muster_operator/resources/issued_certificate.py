"""The Certificate by which cert-manager makes, and renews, the certificate of one listener.

cert-manager writes its Secret; the operator reads it to tell what it holds, and the pods mount it. A new key with each
certificate, as the operator's own have. That Secret is nobody's child: it stays when the Certificate goes.
"""

from collections.abc import Iterable

from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.naming import COORDINATOR, listener_certificate
from muster_operator.resources.certificate_names import names_of
from muster_operator.resources.owned import Manifest, metadata
from muster_operator.world.views import OwnerView

API_VERSION = "cert-manager.io/v1"


def issued(owner: OwnerView, spec: ClusterSpec, listener: Listener, node_addresses: Iterable[str]) -> Manifest | None:
    """None: another source has its certificate."""
    if listener.tls is None or listener.tls.issuer_ref is None:
        return None
    issuer, name = listener.tls.issuer_ref, listener_certificate(owner.name, listener.name)
    names = names_of(owner, spec, (listener,), node_addresses)
    asked: Manifest = {
        "secretName": name,
        "commonName": owner.name,
        "duration": f"{spec.certificates.certificate_days * 24}h0m0s",
        "dnsNames": list(names.hosts),
        "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8", "rotationPolicy": "Always"},
        "usages": ["digital signature", "server auth"],
        "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
    }
    if names.addresses:
        asked["ipAddresses"] = list(names.addresses)
    return {
        "apiVersion": API_VERSION,
        "kind": "Certificate",
        "metadata": metadata(owner, kind="CoordinatorCluster", component=COORDINATOR, name=name),
        "spec": asked,
    }
