"""Which quota holds for a client, and with whom it is shared: Kafka's DefaultQuotaCallback.

The first of eight levels that has a quota of this key decides:

    (user, client id)  (user, any client)  user  (any user, client id)  (any user, any client)  any user  client id
    any client

Who is held by the same one shares it as its name says: with a level that names a client id, or any client, each pair of
user and client id has the whole bound for itself; with a user's, or any user's, all clients of the user share it; with
a client id's alone, or any client's, all who call themselves so share it, whoever they are. A client without an id is
held by quotas of users alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.security.quota_entities import CLIENT_ID, DEFAULT, USER, QuotaEntity

_Level = tuple[str | None, str | None]
"""User and client id; None: the entity has no such part."""


class Share(NamedTuple):
    """Who share one rate; "" stands for whoever it is."""

    user: str
    client_id: str


class Bounds:
    """The quotas of one key, by entity."""

    __slots__ = ("_levels",)

    def __init__(self, quotas: Mapping[QuotaEntity, float]) -> None:
        self._levels: dict[_Level, float] = {}
        for entity, bound in quotas.items():
            named = dict(entity)
            if USER in named or CLIENT_ID in named:
                self._levels[named.get(USER), named.get(CLIENT_ID)] = bound

    def __bool__(self) -> bool:
        return bool(self._levels)

    def share(self, user: str, client_id: str) -> Share:
        """Whose rate the client's use is added to."""
        levels = self._levels
        if (user and client_id and (user, client_id) in levels) or (user and (user, DEFAULT) in levels):
            return Share(user, client_id)
        if user and (user, None) in levels:
            return Share(user, "")
        if (client_id and (DEFAULT, client_id) in levels) or (DEFAULT, DEFAULT) in levels:
            return Share(user, client_id)
        if (DEFAULT, None) in levels:
            return Share(user, "")
        return Share("", client_id)

    def bound(self, share: Share) -> float | None:
        """What they may use a second; None: as much as they like."""
        user, client_id = share
        if user and client_id:
            asked: tuple[_Level, ...] = (
                (user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT),
            )  # fmt: skip
        elif user:
            asked = ((user, None), (DEFAULT, None))
        elif client_id:
            asked = ((None, client_id), (None, DEFAULT))
        else:
            return None
        return next((self._levels[level] for level in asked if level in self._levels), None)
