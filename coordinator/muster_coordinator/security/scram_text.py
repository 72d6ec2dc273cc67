"""Kafka's text of a SCRAM credential: `SCRAM-SHA-512=[name=admin,password=...]`, as of `kafka-storage format
--add-scram`.

Values may be in double quotes; those with a comma must be. An error never quotes the text, which holds a password.
"""

import base64
import binascii
import re
from typing import NamedTuple

from muster_coordinator.security.limits import SCRAM_ITERATIONS_MIN
from muster_coordinator.security.scram import (
    ScramCredential,
    ScramMechanism,
    credential_error,
    credential_of,
    salted_password,
    salted_password_error,
    user_name_error,
)

FORM = "SCRAM-SHA-512=[name=NAME,password=PASSWORD], and iterations=N, salt=BASE64, saltedpassword=BASE64"
_TEXT = re.compile(r"(SCRAM-SHA-256|SCRAM-SHA-512)=\[(.*)\]", re.DOTALL)
_FIELD = re.compile(r'([a-z]+)=("(?:[^"]*)"|[^,"]*)(?:,|$)')
_FIELDS = frozenset({"name", "password", "iterations", "salt", "saltedpassword"})


class NamedCredential(NamedTuple):
    """A user and its credential."""

    user: str
    credential: ScramCredential


def parse_scram(text: str, salt: bytes) -> NamedCredential:
    """The credential; `salt` is used where the text has none. Takes some ms. Raises ValueError."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not of the form {FORM}")
    mechanism = next(one for one in ScramMechanism if one.sasl_name == match[1])
    fields = _fields(match[2])
    user, iterations = fields.get("name", ""), fields.get("iterations", str(SCRAM_ITERATIONS_MIN))
    error = user_name_error(user)
    if error is not None:
        raise ValueError(error)
    if ("password" in fields) == ("saltedpassword" in fields):
        raise ValueError("one of password and saltedpassword is needed")
    if "saltedpassword" in fields and "salt" not in fields:
        raise ValueError("saltedpassword needs its salt")
    if not (iterations.isascii() and iterations.isdigit()) or len(iterations) > 9:
        raise ValueError("iterations is no whole number")
    salt = _decoded("salt", fields["salt"]) if "salt" in fields else salt
    # The bounds first: iterations cost time.
    error = credential_error(credential_of(mechanism, b"x", salt, int(iterations)))
    if error is not None:
        raise ValueError(error)
    if "password" in fields:
        salted = salted_password(mechanism, fields["password"], salt, int(iterations))
    else:
        salted = _decoded("saltedpassword", fields["saltedpassword"])
    error = salted_password_error(salted) or ("the password is empty" if fields.get("password") == "" else None)
    if error is not None:
        raise ValueError(error)
    return NamedCredential(user, credential_of(mechanism, salted, salt, int(iterations)))


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    pos = 0
    while pos < len(text):
        match = _FIELD.match(text, pos)
        if match is None or match[1] not in _FIELDS or match[1] in found:
            raise ValueError(f"not of the form {FORM}")
        found[match[1]] = match[2].removeprefix('"').removesuffix('"')
        pos = match.end()
    return found


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} is no base64") from None
