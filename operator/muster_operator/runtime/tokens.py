"""Admin tokens, and whom to trust, for requests about groups: each Secret is read at most every 30 s, because hundreds
of groups share one."""

from typing import Final

from muster_operator import naming
from muster_operator.limits import TOKEN_AGE_MAX_MS
from muster_operator.ports import Clock, Kube

_SECRETS_MAX: Final = 10_000


class Tokens:
    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[int, str | None]] = {}

    async def of_cluster(self, namespace: str, cluster: str) -> str | None:
        """The admin token of a CoordinatorCluster; None if its Secret does not exist. Raises Transient or Refused."""
        return await self._value(namespace, naming.token_secret(cluster), naming.TOKEN_KEY)

    async def trust_of_cluster(self, namespace: str, cluster: str) -> str | None:
        """The authorities of its own certificates; None if their Secret does not exist. Raises Transient or Refused."""
        name = naming.ca_certificates(naming.cluster_ca(cluster))
        return await self._value(namespace, name, naming.CA_KEY)

    async def _value(self, namespace: str, name: str, key: str) -> str | None:
        now = self._clock.monotonic_ms()
        known = self._known.get((namespace, name))
        if known is not None and now - known[0] < TOKEN_AGE_MAX_MS:
            return known[1]
        found = await self._kube.secret_value(namespace=namespace, name=name, key=key)
        if len(self._known) >= _SECRETS_MAX:
            self._known.clear()
        value = found.strip() if found else None
        self._known[namespace, name] = (now, value)
        return value
