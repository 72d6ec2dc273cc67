"""What is asked of clients and of peers: `spec.peers`, `tls` and `authentication` of a listener, `spec.authorization`.

The words are Strimzi's where it has them. A certificate comes from a Secret of yours, from cert-manager, or from the CA
that the operator keeps for the cluster, which is what `tls: {}` means.
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from dataclasses import dataclass
from typing import ClassVar, Final

from muster_operator.api.fields import Record, spec_field
from muster_operator.api.pod import NAME
from muster_operator.api.schema import Boolean, Integer, ListOf, Rule, Text, choice

NONE: Final = "none"
SECRET: Final = "secret"
TLS: Final = "tls"
OAUTHBEARER: Final = "oauthbearer"
SCRAM: Final = {"scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
"""Type of authentication → Kafka's name of the mechanism."""
SASL: Final = {**SCRAM, OAUTHBEARER: "OAUTHBEARER"}
"""Likewise, of every type that is one of SASL's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    security: str = spec_field(
        choice(SECRET, TLS, NONE),
        "How coordinators know each other. secret: by one that the operator makes (Secret NAME-peer-secret). tls: by"
        " certificates of the operator's CA, both ways, and encrypted. none: they do not, which is only for the way"
        " back to a release before 0.2. A change takes two roll-outs, the first of which accepts both.",
        default=SECRET,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRef:
    name: str = spec_field(NAME, "Name of the issuer.", required=True)
    kind: str = spec_field(choice("Issuer", "ClusterIssuer"), "Issuer or ClusterIssuer.", default="Issuer")
    group: str = spec_field(
        Text(
            max_length=253,
            min_length=1,
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
            pattern_text="must be an API group such as cert-manager.io",
        ),
        "API group of the issuer.",
        default="cert-manager.io",
    )


_HOST: Final = Text(
    max_length=253,
    min_length=1,
    pattern=r"^([*][.])?[0-9a-zA-Z:]([-0-9a-zA-Z.:]*[0-9a-zA-Z:])?$",
    pattern_text="must be a host name, `*.` and a host name, or an address",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.secretName) && has(self.issuerRef))",
            message="`tls` may have a `secretName` or an `issuerRef`, not both: a certificate has one source",
            holds=lambda tls: tls.secret_name is None or tls.issuer_ref is None,
        ),
        Rule(
            cel="!has(self.secretName) || !has(self.alternativeNames)",
            message="`alternativeNames` may not be set beside `secretName`: a certificate of yours has its names",
            holds=lambda tls: tls.secret_name is None or tls.alternative_names is None,
        ),
    )

    secret_name: str | None = spec_field(
        NAME,
        "Secret of yours with `tls.crt` and `tls.key`, of type kubernetes.io/tls or Opaque. It must cover every address"
        " that clients are told. A change of it is taken up without a restart.",
    )
    issuer_ref: IssuerRef | None = spec_field(
        Record(IssuerRef), "Issuer of cert-manager: the operator makes a Certificate NAME-LISTENER-tls for it."
    )
    trusted_secret_name: str | None = spec_field(
        NAME,
        "Secret with `ca.crt`: the CAs of clients' certificates, for authentication of type tls. Absent: the"
        " operator's CA of clients.",
    )
    alternative_names: tuple[str, ...] | None = spec_field(
        ListOf(items=_HOST, max_items=50, unique=True),
        "Further host names and addresses that the certificate covers, such as those of nodes or of a load balancer.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerAuthentication:
    type: str = spec_field(
        choice("scram-sha-512", "scram-sha-256", OAUTHBEARER, TLS, NONE),
        "How clients show who they are: by a password that never leaves them (SCRAM), by a token of an identity"
        " provider (oauthbearer, see `spec.oauth`), or by a certificate.",
        required=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    type: str = spec_field(choice("simple"), "simple: by Kafka's ACLs. Who has no right is denied.", required=True)
    super_users: tuple[str, ...] = spec_field(
        ListOf(
            items=Text(
                max_length=255,
                min_length=1,
                pattern=r"^[^;\x00-\x1f\x7f]+$",
                pattern_text="must be a user's name, without semicolons",
            ),
            max_items=50,
            unique=True,
        ),
        "Users that may do everything, without `User:`; by certificate its subject (CN=admin). The operator's own is"
        " one.",
        default=[],
    )
    report_only: bool = spec_field(
        Boolean(), "Deny nothing, and log what would be denied: to look at before it is meant.", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPort:
    """A port of the coordinators that no client uses."""

    tls: bool = spec_field(Boolean(), "https, by a certificate of the operator's CA.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The operator's own CAs."""

    certificate_days: int = spec_field(
        Integer(low=1, high=825), "Life of a certificate; it is renewed at two thirds of it.", default=90
    )
    ca_days: int = spec_field(
        Integer(low=2, high=7300), "Life of a CA; its successor is made at two thirds of it.", default=1825
    )
    trust_delay_minutes: int = spec_field(
        Integer(low=3, high=525_600),
        "How long a new CA is trusted before it issues anything, and the one before afterwards: clients that keep a"
        " copy of the CAs take it up in this time.",
        default=1440,
    )


LISTENER_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        cel="!has(self.authentication) || self.authentication.type != 'tls' || has(self.tls)",
        message="`authentication` of type `tls` must have `tls` beside it: without there is no certificate to show",
        holds=lambda listener: listener.authenticates_by != TLS or listener.tls is not None,
    ),
    Rule(
        cel="!has(self.authentication) || self.authentication.type != 'oauthbearer' || has(self.tls)",
        message="`authentication` of type `oauthbearer` must have `tls` beside it: who reads a token is its user",
        holds=lambda listener: listener.authenticates_by != OAUTHBEARER or listener.tls is not None,
    ),
    Rule(
        cel="!has(self.tls) || !has(self.tls.trustedSecretName)"
        " || (has(self.authentication) && self.authentication.type == 'tls')",
        message="`trustedSecretName` may only be set with `authentication` of type `tls`: nobody else shows a"
        " certificate",
        holds=lambda listener: (
            listener.tls is None or listener.tls.trusted_secret_name is None or listener.authenticates_by == TLS
        ),
    ),
)
SPEC_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        cel="!has(self.authorization) || (has(self.listeners) && self.listeners.exists(one,"
        " has(one.authentication) && one.authentication.type != 'none'))",
        message="`authorization` must have a listener with `authentication`: without one every client is the same"
        " unknown user",
        holds=lambda spec: spec.authorization is None or any(one.authenticates_by != NONE for one in spec.listeners),
    ),
)
