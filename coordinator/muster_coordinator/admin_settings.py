"""`muster.admin.*` beside the addresses: who may call the admin API, and what encrypts it and the probes (ADR 56).

They are fields of `settings.Settings`, which inherits them. Certificates are those of `listener.name.admin.ssl.*` and
`listener.name.probe.ssl.*`, else of `ssl.*`, as a client listener's are.
"""

# ruff: noqa: RUF009  # a key is a dataclass field with metadata

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster_coordinator.sasl_settings import parse_list
from muster_coordinator.security.roles import Given, Role, parse_roles, parse_roles_of_users
from muster_coordinator.setting_values import Parser, boolean, folder, optional

ADMIN_LISTENER, PROBE_LISTENER = "ADMIN", "PROBE"
"""As `listener.name.` names them."""
JWKS_URL, ISSUER = "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.expected.issuer"


def _admin_key(name: str, parse: Parser, default: str, text: str) -> Any:  # noqa: ANN401  # typed where it is assigned
    metadata = {"key": name, "parse": parse, "default": default, "text": text}
    return field(default_factory=lambda: parse(default), metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class AdminKeys:
    """The part of `Settings` that is about callers of the admin API."""

    admin_tls: bool = _admin_key(
        "muster.admin.tls",
        boolean,
        "false",
        "Whether the admin API is https, by `listener.name.admin.ssl.*` or `ssl.*`. With `ssl.client.auth` a client's "
        "certificate says who it is.",
    )
    probe_tls: bool = _admin_key(
        "muster.probe.tls",
        boolean,
        "false",
        "Whether probes and metrics are https, by `listener.name.probe.ssl.*` or `ssl.*`.",
    )
    operator_token_file: Path | None = _admin_key(
        "muster.admin.operator.token.file",
        optional(folder),
        "",
        "File with a bearer token of the role operator, as `muster.admin.token.file` is of the role admin.",
    )
    viewer_token_file: Path | None = _admin_key(
        "muster.admin.viewer.token.file", optional(folder), "", "File with a bearer token of the role viewer."
    )
    admin_roles: Given = _admin_key(
        "muster.admin.roles",
        parse_roles_of_users,
        "",
        "Roles of users that show a certificate or a token of the identity provider: "
        "`admin=User:CN=ann,O=Example;operator=User:deployer;viewer=User:*`. Who has none may do nothing.",
    )
    oidc_audiences: tuple[str, ...] = _admin_key(
        "muster.admin.oidc.audience",
        parse_list,
        "",
        "Tokens of the identity provider whose `aud` names one of these are taken; issuer and keys are those of "
        "`sasl.oauthbearer.*`. Empty: none are.",
    )
    oidc_roles_claim: str = _admin_key(
        "muster.admin.oidc.roles.claim",
        str,
        "roles",
        "The claim that names roles: a list, or words. `realm_access.roles` is a claim within another.",
    )
    oidc_roles: Given = _admin_key(
        "muster.admin.oidc.roles",
        parse_roles,
        "",
        "Roles by the values of that claim: `admin=cluster-admins;viewer=everybody`.",
    )

    def admin_problem(self, texts: Mapping[str, str], *, certificates: bool) -> str | None:
        """What is wrong with these keys. `texts`: of all keys; `certificates`: may callers show one?"""
        if self.oidc_audiences:
            lacking = next((key for key in (JWKS_URL, ISSUER) if not texts.get(key, "").strip()), None)
            if lacking is not None:
                return f"muster.admin.oidc.audience is set: {lacking} is needed"
            if not self.oidc_roles and not self.admin_roles:
                return "muster.admin.oidc.audience is set: muster.admin.oidc.roles or muster.admin.roles is needed"
        elif self.oidc_roles:
            return "muster.admin.oidc.roles gives roles to nobody: muster.admin.oidc.audience is needed"
        elif self.admin_roles and not certificates:
            return (
                "muster.admin.roles gives roles to nobody: callers show certificates with muster.admin.tls=true and "
                "listener.name.admin.ssl.client.auth, or tokens with muster.admin.oidc.audience"
            )
        return None

    def token_files(self, admin: Path | None) -> tuple[tuple[Role, Path], ...]:
        """`admin`: the value of `muster.admin.token.file`."""
        files = ((Role.ADMIN, admin), (Role.OPERATOR, self.operator_token_file), (Role.VIEWER, self.viewer_token_file))
        return tuple((role, path) for role, path in files if path is not None)
