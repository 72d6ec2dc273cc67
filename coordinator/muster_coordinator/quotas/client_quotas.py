"""What clients have used, compared with their quotas: bytes produced, bytes fetched, and time of the broker.
(Partitions created and deleted are measured in another way: `mutations`.)

One `KindQuotas` for each kind, as Kafka's ClientQuotaManager: what a client uses is added to the rate of all who share
its quota; when that is above the quota, the answer is for how long the client is to be throttled. Samples outlive a
change of the quota, so a changed bound also counts what was used before it. Rates are kept for clients that have a
quota only, for a bounded number of them.

What it does not do: read a clock, mute anybody, or know requests (`wire.throttling`).
"""

from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum

from muster_coordinator.quotas import limits
from muster_coordinator.quotas.mutations import MutationQuotas
from muster_coordinator.quotas.precedence import Bounds, Share
from muster_coordinator.quotas.rate import Rate, Windows
from muster_coordinator.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)


class Kind(Enum):
    """What is counted; the values are Kafka's names of them."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    MUTATION = "ControllerMutation"


KEYS: Mapping[Kind, str] = {
    Kind.PRODUCE: PRODUCER_BYTE_RATE,
    Kind.FETCH: CONSUMER_BYTE_RATE,
    Kind.REQUEST: REQUEST_PERCENTAGE,
    Kind.MUTATION: CONTROLLER_MUTATION_RATE,
}


class KindQuotas:
    """Uses of one kind."""

    def __init__(
        self, windows: Windows, throttle_ms_max: int = limits.THROTTLE_MS_MAX, tracked_max: int = limits.TRACKED_MAX
    ) -> None:
        self._windows = windows
        self._throttle_ms_max = throttle_ms_max
        self._tracked_max = tracked_max
        self._bounds = Bounds({})
        self._rates: OrderedDict[Share, Rate] = OrderedDict()
        """Least recently used first."""

    def set(self, quotas: Mapping[QuotaEntity, float]) -> None:
        """These quotas hold from now on."""
        self._bounds = Bounds(quotas)
        for share in [share for share in self._rates if self._bounds.bound(share) is None]:
            del self._rates[share]

    @property
    def active(self) -> bool:
        """Is there any quota of this kind?"""
        return bool(self._bounds)

    @property
    def tracked(self) -> int:
        return len(self._rates)

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Add a use. Returns for how long the client is to be throttled; 0: it is not."""
        share = self._bounds.share(user, client_id)
        bound = self._bounds.bound(share)
        if bound is None:
            return 0
        rate = self._rate(share)
        rate.record(value, now_ms)
        return min(rate.throttle_ms(bound, now_ms), self._throttle_ms_max)

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """The use that was recorded last has not taken place."""
        share = self._bounds.share(user, client_id)
        if self._bounds.bound(share) is not None:
            self._rate(share).record(-value, now_ms)

    def most_at_once(self, user: str, client_id: str) -> int | None:
        """A use above this would be throttled even if there were no other; None: there is no bound."""
        bound = self._bounds.bound(self._bounds.share(user, client_id))
        if bound is None:
            return None
        number, window_ms = self._windows
        return int(bound * (number - 1) * window_ms / 1_000)

    def _rate(self, share: Share) -> Rate:
        rate = self._rates.get(share)
        if rate is None:
            rate = self._rates[share] = Rate(self._windows)
            if len(self._rates) > self._tracked_max:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end(share)
        return rate


class ClientQuotas:
    """All kinds of quotas of clients."""

    def __init__(
        self, windows: Windows, tracked_max: int = limits.TRACKED_MAX, mutation_windows: Windows | None = None
    ) -> None:
        """`mutation_windows`: how much who begins may create; None: as `windows`."""
        most = limits.THROTTLE_MS_MAX
        self.kinds = {
            Kind.PRODUCE: KindQuotas(windows, most, tracked_max),
            Kind.FETCH: KindQuotas(windows, most, tracked_max),
            # No request can take more time than has passed, so a pause of one window is enough (Kafka's reason, too).
            Kind.REQUEST: KindQuotas(windows, windows.ms, tracked_max),
        }
        self.mutations = MutationQuotas(mutation_windows or windows, tracked_max)
        self.active = False
        """Is there any quota of clients?"""

    def set(self, quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]]) -> None:
        """All quotas of the cluster, from now on."""
        for kind, one in self.kinds.items():
            key = KEYS[kind]
            one.set({entity: value for entity, values in quotas.items() for name, value in values if name == key})
        self.mutations.set(quotas)
        self.active = self.mutations.active or any(one.active for one in self.kinds.values())
