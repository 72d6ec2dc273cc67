"""Who a client of OAUTHBEARER is whose token another server judges (ADR 100).

Problem: that server verifies the token and takes one of its claims for the user; here nobody has the issuer's keys, and
yet the same user must come out. Mechanism: the claim is read as it stands, from a token that is a JWT, and counts once
that server has said yes (`security.passed_on`). A token of which two readers could take two users is refused before it
goes there: a claim that comes twice, or with blanks around it, which some of Kafka's validators take away. What this
does not do: verify anything, or know which claim that server takes (`sasl.oauthbearer.sub.claim.name`). Of a token that
is no JWT, or where that server makes the user of more than one claim, nobody here can say who it is.
"""

import base64
import json
from typing import Any

from muster_coordinator.security.oauth import read_bearer
from muster_coordinator.security.outcome import Refused
from muster_coordinator.security.scram import user_name_error


def token_user(message: bytes, claim: str) -> str | Refused:
    """Of the client's first message: what its token has in this claim."""
    read = read_bearer(message)
    if isinstance(read, Refused):
        return read
    try:
        user = _claims(read.token).get(claim)
    except (ValueError, RecursionError):
        return Refused("a token whose claims cannot be read")
    if not isinstance(user, str) or user != user.strip() or user_name_error(user) is not None:
        return Refused(f"a token without a claim {claim} that can be a user")
    if read.authorization_id not in ("", user):
        return Refused("the authorization id is not the user", user)
    return user


def _claims(token: str) -> dict[str, Any]:
    """Raises ValueError and RecursionError."""
    part = token.split(".")[1]
    found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), b"-_"), object_pairs_hook=_once)
    if not isinstance(found, dict):
        raise ValueError("no claims")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found
