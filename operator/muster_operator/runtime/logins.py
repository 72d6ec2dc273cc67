"""Logins for secured Kafka clusters, from the Secrets that specs name.

Secrets are never listed or watched, so a change is noticed by reading: each Secret is read at most every minute,
however many objects name it, and at once after a cluster did not take a login (`distrust`). What cannot be read is
Unknown, with a reason; the objects that need it go on with everything else. Nothing that is read here is logged.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, Protocol

from muster_operator.api.client_access import (
    CERTIFICATE_KEY,
    PASSWORD_KEY,
    PRIVATE_KEY_KEY,
    TOKEN_KEY,
    USERNAME_KEY,
    Access,
    Authentication,
    Tls,
)
from muster_operator.errors import OperatorError
from muster_operator.kafka.diagnosis import LOGIN_REASONS
from muster_operator.kube.kinds import SECRET
from muster_operator.limits import LOGIN_AGE_MAX_MS, LOGIN_SECRETS_MAX
from muster_operator.ports import Clock, Kube
from muster_operator.world.login import Login
from muster_operator.world.views import Unknown

Values = Mapping[str, str]
_KEYS: Final = {
    "scram-sha-512": (USERNAME_KEY, PASSWORD_KEY),
    "scram-sha-256": (USERNAME_KEY, PASSWORD_KEY),
    "plain": (USERNAME_KEY, PASSWORD_KEY),
    "oauthbearer": (TOKEN_KEY,),
    "tls": (CERTIFICATE_KEY, PRIVATE_KEY_KEY),
}


class Secured(Protocol):
    """A spec with the two fields."""

    @property
    def tls(self) -> Tls | None: ...

    @property
    def authentication(self) -> Authentication | None: ...


class Logins:
    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[int, Values | Unknown]] = {}

    async def of(self, namespace: str, spec: Secured) -> Login | Unknown | None:
        """The login that `spec` names; None if the cluster is open. Raises nothing."""
        if spec.tls is None and spec.authentication is None:
            return None
        ca = ""
        if spec.tls is not None and spec.tls.ca_secret is not None:
            secret = spec.tls.ca_secret
            optional = isinstance(spec, Access) and spec.ca_optional
            found = await self._values(namespace, secret.name, () if optional else (secret.key,))
            if isinstance(found, Unknown):
                return found
            ca = found.get(secret.key, "")
        values: Values = {}
        who = spec.authentication
        if who is not None:
            found = await self._values(namespace, who.secret.name, _KEYS[who.type])
            if isinstance(found, Unknown):
                return found
            values = found
        return Login(
            tls=spec.tls is not None,
            ca=ca,
            mechanism=who.mechanism if who is not None else "",
            username=values.get(USERNAME_KEY, "").strip(),
            password=values.get(PASSWORD_KEY, ""),
            token=values.get(TOKEN_KEY, "").strip(),
            certificate=values.get(CERTIFICATE_KEY, ""),
            key=values.get(PRIVATE_KEY_KEY, ""),
        )

    def distrust(self, namespace: str, spec: Secured, answer: object) -> None:
        """Read the Secrets of `spec` again next time, if `answer` says that the login is not taken."""
        if not isinstance(answer, Unknown) or answer.reason not in LOGIN_REASONS:
            return
        names = [spec.authentication.secret.name] if spec.authentication is not None else []
        if spec.tls is not None and spec.tls.ca_secret is not None:
            names.append(spec.tls.ca_secret.name)
        for name in names:
            self._known.pop((namespace, name), None)

    async def _values(self, namespace: str, name: str, keys: tuple[str, ...]) -> Values | Unknown:
        found = await self._secret(namespace, name)
        if isinstance(found, Unknown):
            return found
        missing = [key for key in keys if not found.get(key)]
        if missing:
            message = f"Secret {name} has no {' and no '.join(missing)}, or it is no text"
            return Unknown(reason="SecretUnusable", message=message)
        return found

    async def _secret(self, namespace: str, name: str) -> Values | Unknown:
        now = self._clock.monotonic_ms()
        known = self._known.get((namespace, name))
        if known is not None and now - known[0] < LOGIN_AGE_MAX_MS:
            return known[1]
        try:
            live = await self._kube.get(
                api_version=SECRET.api_version, kind=SECRET.kind, namespace=namespace, name=name
            )
        except OperatorError as error:
            return Unknown(reason=error.reason, message=f"Secret {name}: {error.message}")
        answer: Values | Unknown
        if live is None:
            # Not remembered: it is often made a moment after the object that names it.
            return Unknown(reason="SecretNotFound", message=f"there is no Secret {name} in {namespace}")
        answer = text_of(live.get("data") or {})
        if len(self._known) >= LOGIN_SECRETS_MAX:
            self._known.clear()
        self._known[namespace, name] = (now, answer)
        return answer


def text_of(data: Mapping[str, str]) -> dict[str, str]:
    """The values that are text; others (a PKCS#12 store) are left out."""
    found = {}
    for key, encoded in data.items():
        try:
            found[key] = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found
