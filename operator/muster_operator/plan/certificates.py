"""What is to be done about the certificates of a cluster now: a pure function of what was read, and of the time.

One CA issues the certificate of listeners and peers, another one those of clients. The key of each is in a Secret that
no pod mounts; the certificates to trust are in a second Secret, without a key. The life of a CA:

    create -> issuing, trusted
    at 2/3 of its life, or asked:  next      a successor is trusted, by everybody before it issues anything
    after the trust delay:         promote   the successor issues; the one before is still trusted
    after the trust delay since the last certificate of the one before was replaced:  forget

So at any time every certificate in use is of a CA that everybody trusts. Clients' certificates are not made here, so
the former CA of clients is trusted until it expires, and with it everything that it issued.

A certificate is renewed at 2/3 of its life, when its CA is another one, and when it lacks a name that clients are told.
At most one step for each Secret in a pass; the next pass sees what it has made.

What it does not do: replace what is damaged, or is somebody else's. A CA that is made anew by itself would cut off
every client at a moment that nobody chose; the condition names the Secret and the cure.
"""

from dataclasses import dataclass

from muster_operator import naming
from muster_operator.limits import CERTIFICATE_BACKDATE_MS, CERTIFICATE_ISSUED_MS
from muster_operator.plan.actions import Action, ChangeAuthority, IssueCertificate, NewSecret, PublishTrust
from muster_operator.resources.certificate_names import names_of
from muster_operator.resources.owned import owner_reference
from muster_operator.world.certificates import AuthorityView, CertificateView, Damaged, LeafView
from muster_operator.world.cluster import ClusterWorld
from muster_operator.world.views import Unknown

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class CertificatesPlan:
    actions: tuple[Action, ...] = ()
    due_ms: int | None = None
    """When, by the wall clock, something is to be done that no event brings."""


def renewal_ms(certificate: CertificateView) -> int:
    """Two thirds of its life."""
    life = certificate.not_after_ms - certificate.not_before_ms
    return certificate.not_before_ms + life * 2 // 3


def plan_certificates(world: ClusterWorld) -> CertificatesPlan:
    cluster, clients = naming.cluster_ca(world.owner.name), naming.clients_ca(world.owner.name)
    actions: list[Action] = []
    dates: list[int] = []
    for name, wanted in ((cluster, world.spec.has_cluster_ca), (clients, world.spec.has_clients_ca)):
        if not wanted:
            continue
        actions += _authority(world, name, dates)
        actions += _trust(world, name)
    if world.spec.has_cluster_ca:
        actions += _leaf(world, cluster, dates)
    dates += _looks(world)
    later = [one for one in dates if one > world.now_ms]
    return CertificatesPlan(tuple(actions), min(later, default=None))


def _looks(world: ClusterWorld) -> list[int]:
    """When to look again at what cert-manager was asked for: Secrets are not watched."""
    now = world.now_ms
    missing = [one.issued for one in world.certificates.given if one.problem is not None and one.issued is not None]
    asked = [(one.changed_ms or 0) + CERTIFICATE_ISSUED_MS for one in missing]
    return [one if now < one < now + CERTIFICATE_ISSUED_MS else now + CERTIFICATE_ISSUED_MS for one in asked]


def _authority(world: ClusterWorld, name: str, dates: list[int]) -> list[Action]:
    view = world.certificates.authorities.get(name)
    if isinstance(view, Damaged) or name in world.certificates.foreign:
        return []
    if view is None:
        return [_change(world, name, "", "create", asked=world.owner.rotate_ca)]
    step, due_ms = _step(world, view, of_clients=name == naming.clients_ca(world.owner.name))
    dates.append(due_ms)
    if step is None:
        return []
    return [_change(world, name, view.secret.version, step, asked=world.owner.rotate_ca if step == "next" else None)]


def _step(world: ClusterWorld, view: AuthorityView, *, of_clients: bool) -> tuple[str | None, int]:
    """(the step that is due, when to look again)."""
    now, delay_ms = world.now_ms, world.spec.certificates.trust_delay_minutes * MINUTE_MS
    if view.next is not None:
        since = view.next.not_before_ms + CERTIFICATE_BACKDATE_MS
        due = min(since + delay_ms, view.issuing.not_after_ms)
        return ("promote" if now >= due and _published(world, view) else None), due
    if view.previous is not None:
        if of_clients:
            due = view.previous.not_after_ms
        else:
            leaf = world.certificates.leaf
            if not isinstance(leaf, LeafView) or leaf.certificate.issuer_key_id != view.issuing.key_id:
                return None, renewal_ms(view.issuing)
            due = leaf.certificate.not_before_ms + CERTIFICATE_BACKDATE_MS + delay_ms
        return ("forget" if now >= due else None), due
    due = renewal_ms(view.issuing)
    asked = world.owner.rotate_ca
    return ("next" if now >= due or (asked is not None and asked != view.rotated_for) else None), due


def _published(world: ClusterWorld, view: AuthorityView) -> bool:
    trust = world.certificates.trusts.get(naming.ca_certificates(view.secret.name))
    return trust is not None and not isinstance(trust, Damaged) and trust.key_ids == view.trusted


def _trust(world: ClusterWorld, authority: str) -> list[Action]:
    view, name = world.certificates.authorities.get(authority), naming.ca_certificates(authority)
    if not isinstance(view, AuthorityView) or name in world.certificates.foreign:
        return []
    trust = world.certificates.trusts.get(name)
    if isinstance(trust, Damaged) or (trust is not None and trust.key_ids == view.trusted):
        return []
    return [
        PublishTrust(
            secret=secret_of(world, name), version=trust.secret.version if trust is not None else "",
            authority=authority,
        )
    ]  # fmt: skip


def _leaf(world: ClusterWorld, authority: str, dates: list[int]) -> list[Action]:
    view, leaf = world.certificates.authorities.get(authority), world.certificates.leaf
    name = naming.server_certificate(world.owner.name)
    if not isinstance(view, AuthorityView) or isinstance(leaf, Damaged) or name in world.certificates.foreign:
        return []
    if not _published(world, view) and leaf is None:
        return []  # its pods would find a certificate and nobody who trusts it
    addresses = () if isinstance(world.node_addresses, Unknown) else tuple(world.node_addresses.values())
    own = [one for one in world.spec.listeners if one.own_certificate]
    names = names_of(world.owner, world.spec, own, addresses)
    if leaf is not None:
        due = renewal_ms(leaf.certificate)
        dates.append(due)
        of_another = leaf.certificate.issuer_key_id != view.issuing.key_id
        if world.now_ms < due and not of_another and names.all <= leaf.certificate.names:
            return []
    days_left = max(1, (view.issuing.not_after_ms - world.now_ms) // (1_440 * MINUTE_MS))
    return [
        IssueCertificate(
            secret=secret_of(world, name), version=leaf.secret.version if leaf is not None else "",
            authority=authority, common_name=world.owner.name, hosts=names.hosts, addresses=names.addresses,
            days=min(world.spec.certificates.certificate_days, days_left),
        )
    ]  # fmt: skip


def secret_of(world: ClusterWorld, name: str) -> NewSecret:
    return NewSecret(
        name=name, namespace=world.owner.namespace,
        labels=naming.labels(component=naming.COORDINATOR, instance=world.owner.name),
        owner_reference=owner_reference(world.owner, "CoordinatorCluster"),
    )  # fmt: skip


def _change(world: ClusterWorld, name: str, version: str, step: str, *, asked: str | None) -> ChangeAuthority:
    return ChangeAuthority(
        secret=secret_of(world, name), version=version, step=step, common_name=f"{name} {world.owner.namespace}"[:64],
        days=world.spec.certificates.ca_days, rotated_for=asked,
    )  # fmt: skip
