"""Who calls the admin API, and with which role (ADR 56).

Problem: a caller may show a token, a client certificate, or both. Mechanism: an `Authorization` header decides if there
is one: its bearer token is one of a file, whose role is the file's, or one that the identity provider signed. Without
the header the client certificate decides, which TLS has verified before. So a wrong token is refused even with a right
certificate. A caller who has shown who it is may still have no role. Why a caller was refused is an event of the log;
the answer says nothing of it, and never which users, tokens or roles there are.

A token whose signing key is not known yet has the keys fetched once (`runtime.jwks`). If they cannot be fetched the
answer is 503 and not a refusal, since the token may be right. What this does not do: delay the answers to wrong tokens.
Tokens are too long to be guessed, and delayed answers would occupy the few connections of this port.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from aiohttp import web

from muster_coordinator.admin.auth import TokenFile
from muster_coordinator.admin.calls import answer_of
from muster_coordinator.errors import CallerError, WireError
from muster_coordinator.ports import Clock
from muster_coordinator.security.limits import TOKEN_BYTES_MAX
from muster_coordinator.security.oauth import TokenJudge, VerifiedToken, verified_token
from muster_coordinator.security.outcome import KeyMissing, Refused
from muster_coordinator.security.roles import Given, Role, highest, role_of_claim, role_of_user

_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Caller(NamedTuple):
    """`principal` is what the audit names; `role` None: it may do nothing."""

    principal: str
    role: Role | None


@dataclass(frozen=True, slots=True)
class Stranger:
    """Has not shown who it is. `why` is for the log and holds nothing that was sent; `tried` is how."""

    why: str
    tried: str = ""
    user: str = ""


class Unknown(Enum):
    """It cannot be known now who this is."""

    KEYS = "the keys that sign tokens cannot be fetched now; ask again"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcRoles:
    """How tokens of an identity provider are judged and what they give."""

    judge: TokenJudge
    claim: str
    given: Given


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Whom this API knows. `user_of_certificate` is the name by a certificate's DER, or raises CallerError or
    WireError; None: none are asked for."""

    tokens: Sequence[tuple[Role, TokenFile]]
    clock: Clock
    users: Given = field(default_factory=lambda: MappingProxyType({}))
    user_of_certificate: Callable[[bytes], str] | None = None
    oidc: OidcRoles | None = None

    @property
    def asks_for(self) -> str:
        return (
            "a bearer token is needed"
            if self.user_of_certificate is None
            else ("a bearer token or a client certificate is needed")
        )

    async def caller(self, request: web.Request) -> Caller | Stranger | Unknown:
        header = request.headers.get("Authorization")
        if header is not None:
            return await self._by_header(header)
        der = _certificate(request)
        if der is None or self.user_of_certificate is None:
            return Stranger("nothing was shown")
        try:
            user = self.user_of_certificate(der)
        except (CallerError, WireError) as error:
            return Stranger(str(error), "certificate")
        return Caller(f"User:{user}", role_of_user(self.users, user))

    async def _by_header(self, header: str) -> Caller | Stranger | Unknown:
        # Every file is compared, whatever the first has said: the time tells nothing.
        role = highest([role for role, token in self.tokens if token.allows(header)])
        if role is not None:
            return Caller(f"{role} token", role)
        scheme, _, given = header.partition(" ")
        if self.oidc is None or scheme.lower() != "bearer":
            return Stranger("not a token of this replica", "bearer")
        token = given.strip()
        if len(token) > TOKEN_BYTES_MAX or not _JWT.fullmatch(token):
            return Stranger("neither a token of this replica nor one of the identity provider", "bearer")
        return await self._by_provider(token, self.oidc)

    async def _by_provider(self, token: str, oidc: OidcRoles) -> Caller | Stranger | Unknown:
        found = self._judged(token, oidc.judge)
        if isinstance(found, KeyMissing):
            if not await answer_of(oidc.judge.source.refresh):
                return Unknown.KEYS
            found = self._judged(token, oidc.judge)
        if isinstance(found, KeyMissing):
            return Stranger("a token that is signed by a key that is not known", "oidc")
        if isinstance(found, Refused):
            return Stranger(found.why, "oidc", found.user)
        roles = (role_of_user(self.users, found.user), role_of_claim(oidc.given, found.claims, oidc.claim))
        return Caller(f"User:{found.user}", highest(roles))

    def _judged(self, token: str, judge: TokenJudge) -> VerifiedToken | KeyMissing | Refused:
        return verified_token(token, judge.source.keys(), judge.rules, self.clock.wall_ms())


def _certificate(request: web.Request) -> bytes | None:
    """DER of what the caller has shown in TLS, and TLS has verified."""
    tls = request.get_extra_info("ssl_object")
    found = None if tls is None else tls.getpeercert(binary_form=True)
    return found if isinstance(found, bytes) else None
