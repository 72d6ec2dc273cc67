"""What a caller of the admin API may do at most: a role, by who it is or by what its token says of it (ADR 56).

A role may do what those below it may. `muster.admin.roles` gives roles to users, `muster.admin.oidc.roles` to values of
a claim; of several that are given the highest counts. Who is given none may do nothing. What this does not do: know
which path needs which role (each file of `admin` says it of its own), or who a caller is (`admin.access`).
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from muster_coordinator.security.limits import CLAIM_VALUES_MAX, ROLES_GIVEN_MAX

EVERY_USER = "User:*"
"""Whoever has shown who it is."""


class Role(IntEnum):
    """In the order of what they may do."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @override
    def __str__(self) -> str:
        return self.name.lower()


Given = Mapping[str, Role]
"""User (`User:name`), or value of a claim -> its role."""


def parse_roles(text: str) -> Given:
    """`admin=NAME;viewer=NAME`: names may have commas and equals signs, as those of certificates do. Raises
    ValueError."""
    found: dict[str, Role] = {}
    for part in filter(None, (item.strip() for item in text.split(";"))):
        role, separator, name = part.partition("=")
        if not separator or not name.strip() or role.strip().upper() not in Role.__members__:
            raise ValueError(f"{part!r} is not ROLE=NAME, with a role of {', '.join(map(str, Role))}")
        known = Role[role.strip().upper()]
        found[name.strip()] = max(known, found.get(name.strip(), known))
    if len(found) > ROLES_GIVEN_MAX:
        raise ValueError(f"more than {ROLES_GIVEN_MAX}")
    return MappingProxyType(found)


def parse_roles_of_users(text: str) -> Given:
    """As `parse_roles`, of users only. Raises ValueError."""
    found = parse_roles(text)
    for name in found:
        if not name.startswith("User:"):
            raise ValueError(f"{name} is no user such as User:{name}")
    return found


def role_of_user(given: Given, user: str) -> Role | None:
    """`user` without `User:` in front, as it has shown to be."""
    return highest(given.get(name) for name in (f"User:{user}", EVERY_USER))


def role_of_claim(given: Given, claims: Mapping[str, Any], claim: str) -> Role | None:
    """By the values of a claim, which is named as it stands, or by its way through objects (`realm_access.roles`)."""
    return highest(given.get(value) for value in _values(claims, claim))


def highest(roles: Iterable[Role | None]) -> Role | None:
    return max((role for role in roles if role is not None), default=None)


def _values(claims: Mapping[str, Any], claim: str) -> Iterator[str]:
    """A list has its texts, a text its words, as `scope` has them."""
    found: object = claims.get(claim)
    if found is None:
        found = claims
        for step in claim.split("."):
            found = found.get(step) if isinstance(found, dict) else None
    listed = found.split() if isinstance(found, str) else found if isinstance(found, list) else ()
    return (value for value in listed[:CLAIM_VALUES_MAX] if isinstance(value, str))
