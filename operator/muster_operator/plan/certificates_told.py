"""What the status says of certificates: a condition, and when each of them expires. Dates and not days: a number that
falls each day would be a write each day.

The condition is there only while a spec has TLS. What needs a person names the Secret and the cure; the coordinators
judge their files themselves and keep the ones before (ADR 51), so none of this stops a pass. cert-manager has a minute
for what it was asked for; then its own words are part of the message.
"""

from collections.abc import Iterator
from typing import Any

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.api.security import TLS
from muster_operator.limits import CERTIFICATE_EXPIRES_DAYS, CERTIFICATE_ISSUED_MS
from muster_operator.plan.conditions import Finding, finding, timestamp
from muster_operator.world.certificates import AuthorityView, CertificateView, Damaged, IssuedView, LeafView
from muster_operator.world.cluster import ClusterWorld

DAY_MS = 86_400_000


def certificates_finding(world: ClusterWorld) -> Finding | None:
    """None: the spec has no TLS."""
    if not _has_tls(world):
        return None
    type_, view = ClusterCondition.CERTIFICATES_READY, world.certificates
    if view.foreign:
        names = ", ".join(view.foreign)
        message = f"Secret {names} exists and belongs to another owner: rename it or remove it"
        return finding(type_, False, Reason.NAME_TAKEN, message)
    for damaged in (*view.authorities.values(), *view.trusts.values(), view.leaf):
        if isinstance(damaged, Damaged):
            message = (
                f"Secret {damaged.name} cannot be used: {damaged.problem}; restore it, or delete it to have a new one"
                " made, which clients have to be given if it is a CA"
            )
            return finding(type_, False, Reason.SECRET_UNUSABLE, message)
    for given in view.given:
        if given.problem is not None:
            message = f"Secret {given.name} of listener {given.listener} cannot be used: {given.problem}"
            if given.issued is None:
                return finding(type_, False, Reason.SECRET_UNUSABLE, f"{message}; put what is right into it")
            message = f"{message}; {_issued(given.name, given.issued)}"
            reason = Reason.CREATING_CHILDREN if _is_asked(world, given.issued) else Reason.SECRET_UNUSABLE
            return finding(type_, False, reason, message)
    first = min(_certificates(world), key=lambda one: one[1].not_after_ms, default=None)
    if first is None or _lacks(world):
        return finding(type_, False, Reason.CREATING_CHILDREN, "certificates are being made")
    name, certificate = first
    date = timestamp(certificate.not_after_ms)
    if world.now_ms >= certificate.not_after_ms:
        return finding(type_, False, Reason.CERTIFICATE_EXPIRED, f"Secret {name} has expired on {date}: renew it")
    of_others = {one.name: one.issued for one in view.given}
    if name in of_others and _is_late(world, certificate):
        message = f"Secret {name} expires on {date}, and the operator does not renew it"
        if (issued := of_others[name]) is not None:
            message = f"{message}; {_issued(name, issued)}"
        return finding(type_, True, Reason.CERTIFICATE_EXPIRING, message)
    return finding(type_, True, Reason.CERTIFICATES_VALID, f"Secret {name} is the first that expires, on {date}")


def _issued(name: str, issued: IssuedView) -> str:
    """Who makes it, and what is known of why there is none."""
    maker = f"cert-manager makes it for Certificate {name} by {issued.issuer}"
    return maker if issued.says is None else f"{maker}: {issued.says}"


def _is_asked(world: ClusterWorld, issued: IssuedView) -> bool:
    """It was, or something about it has changed, a moment ago."""
    return issued.changed_ms is None or world.now_ms - issued.changed_ms < CERTIFICATE_ISSUED_MS


def needs_person(found: Finding | None) -> bool:
    """Nothing that the operator does will mend it."""
    reasons = (Reason.NAME_TAKEN, Reason.SECRET_UNUSABLE, Reason.CERTIFICATE_EXPIRED)
    return found is not None and found.status == "False" and found.reason in reasons


def certificates_status(world: ClusterWorld) -> list[dict[str, Any]]:
    """By Secret."""
    found = {name: {"name": name, "notAfter": timestamp(one.not_after_ms)} for name, one in _certificates(world)}
    return [found[name] for name in sorted(found)]


def _has_tls(world: ClusterWorld) -> bool:
    return world.spec.peers.security == TLS or any(one.tls is not None for one in world.spec.listeners)


def _lacks(world: ClusterWorld) -> bool:
    made = sum(isinstance(one, AuthorityView) for one in world.certificates.authorities.values())
    wanted = int(world.spec.has_cluster_ca) + int(world.spec.has_clients_ca)
    return made < wanted or (world.spec.has_cluster_ca and world.certificates.leaf is None)


def _is_late(world: ClusterWorld, certificate: CertificateView) -> bool:
    """In its last two weeks, or its last tenth if it lives shortly: cert-manager renews before."""
    life = certificate.not_after_ms - certificate.not_before_ms
    return certificate.not_after_ms - world.now_ms < min(CERTIFICATE_EXPIRES_DAYS * DAY_MS, life // 10)


def _certificates(world: ClusterWorld) -> Iterator[tuple[str, CertificateView]]:
    view = world.certificates
    for name, authority in view.authorities.items():
        if isinstance(authority, AuthorityView):
            yield name, authority.issuing
    if isinstance(view.leaf, LeafView):
        yield view.leaf.secret.name, view.leaf.certificate
    for given in view.given:
        if given.certificate is not None:
            yield given.name, given.certificate
