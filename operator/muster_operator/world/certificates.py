"""What was read of Secrets with certificates: never a key, never a password."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateView:
    key_id: str
    """Of its own key, in hex."""
    issuer_key_id: str
    """Of the key that signed it, in hex."""
    not_before_ms: int
    not_after_ms: int
    names: frozenset[str] = frozenset()
    """Host names and addresses of its SAN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """A Secret of ours as it was read: a change is made to this very version only."""

    name: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityView:
    """A CA of the operator's."""

    secret: SecretRef
    issuing: CertificateView
    next: CertificateView | None = None
    """Trusted, issues nothing yet."""
    previous: CertificateView | None = None
    """Trusted, issues nothing any more."""
    rotated_for: str | None = None
    """Annotation `muster.dev/rotate-ca` that the last successor was made for."""

    @property
    def trusted(self) -> frozenset[str]:
        """Key ids."""
        return frozenset(one.key_id for one in (self.issuing, self.next, self.previous) if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustView:
    secret: SecretRef
    key_ids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafView:
    secret: SecretRef
    certificate: CertificateView


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedView:
    """A Certificate that cert-manager was asked for."""

    issuer: str
    """Kind and name."""
    says: str | None = None
    """Why there is none, in the words of whoever knows. None: nothing keeps it from being issued."""
    changed_ms: int | None = None
    """When it was made, or cert-manager last judged it otherwise. None: it is not there, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenView:
    """A Secret of somebody else's: of yours, or cert-manager's."""

    name: str
    listener: str
    problem: str | None = None
    """Why the coordinators cannot use it."""
    certificate: CertificateView | None = None
    issued: IssuedView | None = None
    """None: it is yours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A Secret of ours whose content cannot be used."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatesView:
    """Only what the spec needs was looked at. A name that is missing does not exist."""

    authorities: Mapping[str, AuthorityView | Damaged] = field(default_factory=dict)
    """By the name of the Secret."""
    trusts: Mapping[str, TrustView | Damaged] = field(default_factory=dict)
    leaf: LeafView | Damaged | None = None
    given: tuple[GivenView, ...] = ()
    foreign: tuple[str, ...] = ()
    """Secrets of wanted names that belong to another owner."""
