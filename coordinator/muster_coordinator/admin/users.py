"""`POST /v1/users/{name}/scram`: a user's password, set by who holds the admin token (ADR 62).

Problem: when the last administrator's password is lost, or was deleted, nobody can make another user through Kafka's
protocol. Mechanism: whoever can read the admin token's file, as those who run the processes can, sets the credential of
a user by the same command that AlterUserScramCredentials proposes; any replica passes it on. Only salt, StoredKey and
ServerKey are sent, which the command line makes of the password. What it does not do: make anybody a super user
(`super.users` is a setting), delete users, or see a password.
"""

import binascii
import json
import secrets
from base64 import b64decode

from aiohttp import web

from muster_coordinator.admin.balancing import refusal_of
from muster_coordinator.admin.calls import proposed
from muster_coordinator.admin.refusals import NOT_FORMED, Refusal, asked_by, refused
from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.controller.commands import NewScramCredential, SetScramCredential
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.security.limits import SCRAM_SECRET_BYTES
from muster_coordinator.security.roles import Role
from muster_coordinator.security.scram import ScramCredential, ScramMechanism, credential_error, user_name_error

FIELDS = frozenset({"mechanism", "iterations", "salt", "stored_key", "server_key"})
_BY_NAME = {one.sasl_name: one for one in ScramMechanism}


def credential_of_body(body: bytes) -> ScramCredential:
    """The credential in the body of a request. Raises ValueError with a message that quotes none of it."""
    asked: object = json.loads(body) if body.strip() else None
    if not isinstance(asked, dict) or asked.keys() != FIELDS:
        raise ValueError(f"expected an object with {', '.join(sorted(FIELDS))}")
    mechanism, iterations = _BY_NAME.get(str(asked["mechanism"])), asked["iterations"]
    if mechanism is None:
        raise ValueError(f"mechanism is none of {', '.join(_BY_NAME)}")
    if type(iterations) is not int:
        raise ValueError("iterations is a whole number")
    credential = ScramCredential(
        mechanism=mechanism,
        salt=_bytes("salt", asked["salt"]),
        iterations=iterations,
        stored_key=_bytes("stored_key", asked["stored_key"]),
        server_key=_bytes("server_key", asked["server_key"]),
    )
    error = credential_error(credential)
    if error is not None:
        raise ValueError(error)
    return credential


def _bytes(name: str, value: object) -> bytes:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} is no base64") from None


class Users:
    """Handler over one replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def routes(self) -> tuple[Route, ...]:
        return (Route("POST", "/v1/users/{name:.+}/scram", Role.ADMIN, self.set),)

    async def set(self, request: web.Request) -> web.StreamResponse:
        """Answers when the credential is committed; this replica may apply it a moment later."""
        name = request.match_info["name"]
        error = user_name_error(name)
        if error is not None:
            return refused(Refusal(400, "bad_request", error))
        credential = await asked_by(request, credential_of_body)
        if isinstance(credential, Refusal):
            return refused(credential)
        new = NewScramCredential(
            user=name,
            mechanism=credential.mechanism.value,
            iterations=credential.iterations,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
        )
        command = SetScramCredential(credential=new, secret=secrets.token_bytes(SCRAM_SECRET_BYTES))
        image = self._replica.image()
        if image is None:
            return refused(NOT_FORMED)
        early = level_refusal(image, command)
        if early is not None:
            return refused(Refusal(409, "feature_level", early.message))
        refusal = refusal_of(await proposed(self._replica, command))
        if refusal is not None:
            return refused(refusal)
        return web.json_response({"user": name, "mechanism": credential.mechanism.sasl_name})
