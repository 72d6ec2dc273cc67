"""How a client is let into a secured Kafka cluster: `tls` and `authentication`, by reference to Secrets.

The same two fields in every kind that names a cluster. Their Secrets have the keys of a `User`'s Secret, so that one of
those can be named as it is. Nothing secret is ever part of a spec.
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from muster_operator.api.fields import Record, spec_field
from muster_operator.api.schema import Rule, Text, choice

CA_KEY: Final = "ca.crt"
USERNAME_KEY: Final = "username"
PASSWORD_KEY: Final = "password"
TOKEN_KEY: Final = "token"
CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY_KEY: Final = "tls.key"

SASL_MECHANISMS: Final = {
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
    "plain": "PLAIN",
    "oauthbearer": "OAUTHBEARER",
}
"""`authentication.type` → the mechanism in Kafka's words; "tls" is none."""

SECRET_NAME: Final = Text(
    max_length=253,
    min_length=1,
    pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    pattern_text="must be the name of a Secret",
)
_KEY: Final = Text(max_length=253, min_length=1, pattern=r"^[-._a-zA-Z0-9]+$", pattern_text="must be a Secret's key")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaSecret:
    name: str = spec_field(SECRET_NAME, "Name of a Secret in this namespace.", required=True)
    key: str = spec_field(_KEY, "Its key with certificates in PEM.", default=CA_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSecret:
    name: str = spec_field(SECRET_NAME, "Name of a Secret in this namespace.", required=True)
    key: str = spec_field(_KEY, "Its key with the password.", default=PASSWORD_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    ca_secret: CaSecret | None = spec_field(
        Record(CaSecret),
        "The authorities that are trusted, and no others. Absent: those of the image (public ones).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSecret:
    name: str = spec_field(
        SECRET_NAME,
        "Name of a Secret in this namespace, with the keys `username` and `password` (scram-sha-512, scram-sha-256,"
        " plain), `token` (oauthbearer), or `tls.crt` and `tls.key` (tls). A `User`'s Secret has them.",
        required=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    type: str = spec_field(
        choice("scram-sha-512", "scram-sha-256", "plain", "oauthbearer", "tls"),
        "How the client shows who it is.",
        required=True,
    )
    secret: AuthenticationSecret = spec_field(Record(AuthenticationSecret), "Where its credentials are.", required=True)

    @property
    def mechanism(self) -> str:
        """SASL mechanism in Kafka's words; "" for type tls."""
        return SASL_MECHANISMS.get(self.type, "")


def access_rule(field: str, read: Callable[[Any], Authentication | None]) -> Rule:
    """For a spec with `tls` and, as `field`, a login."""
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.type.startsWith('scram') || has(self.tls)",
        message=f"`tls` must be set with this `{field}`: a password or token would be sent as it is",
        holds=lambda spec: (who := read(spec)) is None or who.type.startswith("scram") or spec.tls is not None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The two fields of a spec that name Secrets."""

    tls: Tls | None
    authentication: Authentication | None
    ca_optional: bool = False
    """Where the Secret has no authority, those of the image are trusted: a certificate of yours, or of cert-manager,
    may be of a public one."""


TLS_TEXT: Final = (
    "The cluster's listener speaks TLS. Chain and host name are verified. Absent: no TLS is used. The Secret is read"
    " again when it changes. With `clusterRef` to a cluster of the operator's the authority is found by itself."
)
AUTHENTICATION_TEXT: Final = (
    "How the cluster's listener is logged in to, from a Secret. Absent: it asks nobody, or is one of a `clusterRef`,"
    " where the operator has a user of its own."
)
