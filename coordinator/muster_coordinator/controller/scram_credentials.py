"""Users' SCRAM credentials in the controller's log: who has which, set, deleted, and the first ones. Pure.

Problem: every replica has to know every user, and a user that is gone has to be gone everywhere. Mechanism: credentials
are part of the image, by user, at most one for each mechanism; only StoredKey and ServerKey are ever in a command. The
first command that sets any also brings the secret of which the salts of users that do not exist are made: all replicas
have the same one, for good. What a cluster is formed with (`muster format --add-scram`) is set only while nothing was
ever set, so it never brings back who was deleted. What this does not do: see passwords, or authenticate
(`security.scram`).
"""

from collections.abc import Mapping
from dataclasses import replace

from muster_coordinator.controller.commands import (
    DeleteScramCredential,
    FirstScramCredentials,
    NewScramCredential,
    SetScramCredential,
)
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.misfit import MisfitError, require, with_, without
from muster_coordinator.errors import Code
from muster_coordinator.security.limits import SCRAM_SECRET_BYTES, SCRAM_SHAPES_MAX, SCRAM_USERS_MAX
from muster_coordinator.security.scram import ScramCredential, ScramMechanism, Shape, credential_error, user_name_error

Users = Mapping[str, tuple[ScramCredential, ...]]
NOT_THERE = "Attempt to delete a user credential that does not exist"
"""Kafka's text."""
_NUMBERS = frozenset(mechanism.value for mechanism in ScramMechanism)


def set_credential(cluster: ClusterImage, command: SetScramCredential) -> ClusterImage:
    """The image with this credential. Raises `MisfitError`."""
    users = _with_one(cluster, cluster.scram_users, command.credential)
    return replace(cluster, scram_users=users, scram_secret=_secret(cluster, command.secret))


def first_credentials(cluster: ClusterImage, command: FirstScramCredentials) -> ClusterImage:
    """The image with these credentials, if none was ever set. Raises `MisfitError`."""
    unset = not cluster.scram_secret
    require(unset, Code.POLICY_VIOLATION, "the cluster has, or had, users of its own")
    require(bool(command.credentials), Code.INVALID_REQUEST, "no user is named")
    users = cluster.scram_users
    for credential in command.credentials:
        users = _with_one(cluster, users, credential)
    return replace(cluster, scram_users=users, scram_secret=_secret(cluster, command.secret))


def delete_credential(cluster: ClusterImage, command: DeleteScramCredential) -> ClusterImage:
    """The image without this credential. Raises `MisfitError`."""
    _require_name(command.user, command.mechanism)
    held = cluster.scram_users.get(command.user, ())
    rest = tuple(one for one in held if one.mechanism.value != command.mechanism)
    if len(rest) == len(held):
        raise MisfitError(Code.RESOURCE_NOT_FOUND, NOT_THERE)
    users = with_(cluster.scram_users, command.user, rest) if rest else without(cluster.scram_users, command.user)
    return replace(cluster, scram_users=users)


def credential_in(users: Users, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
    """The user's credential for this mechanism."""
    return next((one for one in users.get(user, ()) if one.mechanism is mechanism), None)


def shapes_of(users: Users) -> dict[ScramMechanism, tuple[Shape, ...]]:
    """By mechanism, what challenges of these users look like: of many shapes the first."""
    found: dict[ScramMechanism, set[Shape]] = {mechanism: set() for mechanism in ScramMechanism}
    for held in users.values():
        for one in held:
            found[one.mechanism].add(Shape(one.iterations, len(one.salt)))
    return {mechanism: tuple(sorted(shapes)[:SCRAM_SHAPES_MAX]) for mechanism, shapes in found.items()}


def _with_one(cluster: ClusterImage, users: Users, new: NewScramCredential) -> Users:
    _require_name(new.user, new.mechanism)
    mechanism = ScramMechanism(new.mechanism)
    before = credential_in(users, new.user, mechanism)
    credential = ScramCredential(
        mechanism=mechanism,
        salt=new.salt,
        iterations=new.iterations,
        stored_key=new.stored_key,
        server_key=new.server_key,
        since=cluster.applied if before is None else before.since,
    )
    error = credential_error(credential)
    require(error is None, Code.UNACCEPTABLE_CREDENTIAL, error or "")
    known = new.user in users
    require(
        known or len(users) < SCRAM_USERS_MAX, Code.POLICY_VIOLATION, f"there are {SCRAM_USERS_MAX} users, the most"
    )
    others = (one for one in users.get(new.user, ()) if one.mechanism is not mechanism)
    return with_(users, new.user, tuple(sorted((*others, credential), key=lambda one: one.mechanism.value)))


def _require_name(user: str, mechanism: int) -> None:
    error = user_name_error(user)
    require(error is None, Code.UNACCEPTABLE_CREDENTIAL, error or "")
    require(mechanism in _NUMBERS, Code.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _secret(cluster: ClusterImage, offered: bytes) -> bytes:
    if cluster.scram_secret:
        return cluster.scram_secret
    require(len(offered) == SCRAM_SECRET_BYTES, Code.INVALID_REQUEST, f"a secret has {SCRAM_SECRET_BYTES} bytes")
    return offered
