"""Reads the Secrets with certificates that a CoordinatorCluster needs, and tells planning what they hold.

They are read by name in each pass, since Secrets are never listed or watched; a cluster without TLS costs no request.
Keys are compared with their certificates here and go no further. What cert-manager says of those that it is to make
comes in (`observe_issued`).
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec, Listener
from muster_operator.api.security import TLS
from muster_operator.kube.kinds import SECRET
from muster_operator.kube.views import controller_uid
from muster_operator.naming import FIELD_MANAGER, MANAGED_BY_LABEL
from muster_operator.ports import Kube
from muster_operator.resources.certificate_names import names_of
from muster_operator.resources.secured import certificate_secret
from muster_operator.runtime.x509 import Unreadable, key_id_of, read_certificates
from muster_operator.world.certificates import (
    AuthorityView,
    CertificatesView,
    CertificateView,
    Damaged,
    GivenView,
    IssuedView,
    LeafView,
    SecretRef,
    TrustView,
)
from muster_operator.world.views import OwnerView

Object = Mapping[str, Any]


class _Secrets:
    """Each Secret is read once a pass."""

    def __init__(self, kube: Kube, owner: OwnerView) -> None:
        self._kube, self._owner = kube, owner
        self._read: dict[str, Object | None] = {}
        self.foreign: list[str] = []

    async def get(self, name: str) -> Object | None:
        if name not in self._read:
            self._read[name] = await self._kube.get(
                api_version=SECRET.api_version, kind=SECRET.kind, namespace=self._owner.namespace, name=name
            )
        return self._read[name]

    async def ours(self, name: str) -> Object | None:
        """None: there is none of ours."""
        found = await self.get(name)
        if found is None:
            return None
        labels = found["metadata"].get("labels") or {}
        if controller_uid(found) != self._owner.uid or labels.get(MANAGED_BY_LABEL) != FIELD_MANAGER:
            self.foreign.append(name)
            return None
        return found


async def observe_certificates(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    kube: Kube,
    node_addresses: Iterable[str],
    issued: Mapping[str, IssuedView],
) -> CertificatesView:
    """Raises Transient or Refused (a Secret could not be read)."""
    secrets = _Secrets(kube, owner)
    authorities: dict[str, AuthorityView | Damaged] = {}
    trusts: dict[str, TrustView | Damaged] = {}
    leaf: LeafView | Damaged | None = None
    wanted = (
        (naming.cluster_ca(owner.name), spec.has_cluster_ca),
        (naming.clients_ca(owner.name), spec.has_clients_ca),
    )
    for name in (name for name, needed in wanted if needed):
        if (found := await secrets.ours(name)) is not None:
            authorities[name] = authority_view(found)
        public = naming.ca_certificates(name)
        if (found := await secrets.ours(public)) is not None:
            trusts[public] = _trust(found)
    if spec.has_cluster_ca and (found := await secrets.ours(naming.server_certificate(owner.name))) is not None:
        leaf = _leaf(found)
    given = [
        await _given(owner, spec, listener, secrets, node_addresses, issued.get(listener.name))
        for listener in spec.listeners
        if listener.tls is not None and not listener.own_certificate
    ]
    given += [
        await _trusted(listener, listener.tls.trusted_secret_name, secrets)
        for listener in spec.listeners
        if listener.authenticates_by == TLS and listener.tls is not None and listener.tls.trusted_secret_name
    ]
    return CertificatesView(
        authorities=authorities, trusts=trusts, leaf=leaf, given=tuple(given), foreign=tuple(secrets.foreign)
    )


def authority_view(found: Object) -> AuthorityView | Damaged:
    ref = _ref(found)
    try:
        issuing, following = (certificate_of(found, *keys) for keys in (AUTHORITY_KEYS, NEXT_KEYS))
        previous = _first(found, PREVIOUS_KEY)
    except Unreadable as error:
        return Damaged(name=ref.name, problem=str(error))
    if issuing is None:
        return Damaged(name=ref.name, problem=f"`{AUTHORITY_KEYS[0]}` is missing")
    return AuthorityView(
        secret=ref, issuing=issuing, next=following, previous=previous,
        rotated_for=(found["metadata"].get("annotations") or {}).get(naming.ROTATE_CA_ANNOTATION),
    )  # fmt: skip


AUTHORITY_KEYS = (naming.CERTIFICATE_KEY, naming.PRIVATE_KEY)
NEXT_KEYS = ("next.crt", "next.key")
PREVIOUS_KEY = "previous.crt"


def certificate_of(found: Object, certificate: str, key: str) -> CertificateView | None:
    """One whose key is beside it; None: it is not there. Raises Unreadable."""
    first = _first(found, certificate)
    if first is None:
        return None
    if text_of(found, key) is None:
        raise Unreadable(f"`{key}` is missing")
    try:
        held = key_id_of(text_of(found, key) or "")
    except Unreadable as error:
        raise Unreadable(f"`{key}`: {error}") from None
    if held != first.key_id:
        raise Unreadable(f"`{key}` is not the key of `{certificate}`")
    return first


def _first(found: Object, certificate: str) -> CertificateView | None:
    text = text_of(found, certificate)
    if text is None:
        return None
    try:
        read = read_certificates(text)
    except Unreadable as error:
        raise Unreadable(f"`{certificate}`: {error}") from None
    if not read:
        raise Unreadable(f"`{certificate}` holds no certificate")
    return read[0]


def _trust(found: Object) -> TrustView | Damaged:
    ref = _ref(found)
    try:
        read = read_certificates(text_of(found, naming.CA_KEY) or "")
    except Unreadable:
        read = ()  # it is written anew: nothing in it is anybody's
    return TrustView(secret=ref, key_ids=frozenset(one.key_id for one in read))


def _leaf(found: Object) -> LeafView | Damaged:
    ref = _ref(found)
    try:
        certificate = certificate_of(found, *AUTHORITY_KEYS)
    except Unreadable as error:
        return Damaged(name=ref.name, problem=str(error))
    if certificate is None:
        return Damaged(name=ref.name, problem=f"`{naming.CERTIFICATE_KEY}` is missing")
    return LeafView(secret=ref, certificate=certificate)


async def _given(
    owner: OwnerView,
    spec: ClusterSpec,
    listener: Listener,
    secrets: _Secrets,
    node_addresses: Iterable[str],
    issued: IssuedView | None,
) -> GivenView:
    """A certificate of yours, or of cert-manager's."""
    view = GivenView(name=certificate_secret(owner, listener), listener=listener.name, issued=issued)
    found = await secrets.get(view.name)
    if found is None:
        return replace(view, problem="it does not exist")
    try:
        certificate = certificate_of(found, *AUTHORITY_KEYS)
    except Unreadable as error:
        return replace(view, problem=str(error))
    if certificate is None:
        return replace(view, problem=f"`{naming.CERTIFICATE_KEY}` is missing")
    wanted = names_of(owner, spec, (listener,), node_addresses)
    told = [one for one in wanted.all if not any(_covers(name, one) for name in certificate.names)]
    pods = [
        one for one in told if one.startswith("*.") and not one.endswith(f".{spec.cluster_domain or 'cluster.local'}")
    ]
    problem = f"its certificate does not cover {pods[0]}, by which clients reach the pods" if pods else None
    return replace(view, problem=problem, certificate=certificate)


def _covers(pattern: str, name: str) -> bool:
    return pattern == name or (pattern.startswith("*.") and name.partition(".")[2] == pattern[2:])


async def _trusted(listener: Listener, name: str, secrets: _Secrets) -> GivenView:
    found = await secrets.get(name)
    if found is None:
        return GivenView(name=name, listener=listener.name, problem="it does not exist")
    try:
        first = _first(found, naming.CA_KEY)
    except Unreadable as error:
        return GivenView(name=name, listener=listener.name, problem=str(error))
    problem = None if first is not None else f"`{naming.CA_KEY}` is missing"
    return GivenView(name=name, listener=listener.name, problem=problem, certificate=first)


def text_of(found: Object, key: str) -> str | None:
    """None: there is no such key, or it is empty. Raises Unreadable for what is no text."""
    held = (found.get("data") or {}).get(key)
    if not held:
        return None
    try:
        return base64.b64decode(held, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Unreadable(f"`{key}` is not text") from None


def _ref(found: Object) -> SecretRef:
    metadata = found["metadata"]
    return SecretRef(name=metadata["name"], uid=metadata["uid"], version=str(metadata.get("resourceVersion") or ""))
