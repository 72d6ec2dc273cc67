"""How many partitions a client may create and delete: Kafka's `controller_mutation_rate` (KIP-599).

A rate over windows, as bytes have it, would let through a request of ten thousand partitions and then throttle for
hours what comes after. So this quota is a bucket of tokens, as Kafka's TokenBucket: the bound is what flows into it
each second, and what flows in during all windows together is the most it holds; it begins full. Each partition takes a
token. A request that finds the bucket at zero or above may take more tokens than there are; the bucket is below zero
then, and refuses all others until as many have flowed in.

What it does not do: read a clock, or decide what becomes of a request that is refused (`wire.throttling`).
"""

from collections import OrderedDict
from collections.abc import Mapping

from muster_coordinator.quotas import limits
from muster_coordinator.quotas.precedence import Bounds, Share
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.security.quota_entities import CONTROLLER_MUTATION_RATE, QuotaEntity


class TokenBucket:
    """Of those who share one quota. Its bound may change at any time."""

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self, bound: float, windows: Windows, now_ms: int) -> None:
        self._at_ms = now_ms
        self._tokens = _most(bound, windows)

    def tokens(self, bound: float, windows: Windows, now_ms: int) -> float:
        """What is in it now; below zero is what was taken too much."""
        flowed = bound * (now_ms - self._at_ms) / 1_000
        self._tokens = min(_most(bound, windows), self._tokens + flowed)
        self._at_ms = now_ms
        return self._tokens

    def take(self, number: int) -> None:
        """Of what `tokens` has just said."""
        self._tokens -= number


def _most(bound: float, windows: Windows) -> float:
    return bound * windows.number * windows.ms / 1_000


class MutationQuotas:
    """All buckets of a broker; a bounded number, the least recently used one goes first."""

    def __init__(self, windows: Windows, tracked_max: int = limits.TRACKED_MAX) -> None:
        self._windows = windows
        self._tracked_max = tracked_max
        self._bounds = Bounds({})
        self._buckets: OrderedDict[Share, TokenBucket] = OrderedDict()

    def set(self, quotas: Mapping[QuotaEntity, tuple[tuple[str, float], ...]]) -> None:
        """All quotas of the cluster, from now on."""
        key = CONTROLLER_MUTATION_RATE
        self._bounds = Bounds(
            {entity: value for entity, values in quotas.items() for name, value in values if name == key}
        )
        for share in [share for share in self._buckets if self._bounds.bound(share) is None]:
            del self._buckets[share]

    @property
    def active(self) -> bool:
        """Is there any quota of this key?"""
        return bool(self._bounds)

    @property
    def tracked(self) -> int:
        return len(self._buckets)

    def wait_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """For how long the bucket stays below zero; 0: it is not, or there is no bound."""
        share = self._bounds.share(user, client_id)
        bound = self._bounds.bound(share)
        if bound is None:
            return 0
        tokens = self._bucket(share, bound, now_ms).tokens(bound, self._windows, now_ms)
        if tokens >= 0:
            return 0
        return int(min(-tokens / bound * 1_000, limits.THROTTLE_MS_MAX) + 0.5)

    def take(self, user: str, client_id: str, number: int, now_ms: int) -> None:
        """So many partitions are created or deleted."""
        share = self._bounds.share(user, client_id)
        bound = self._bounds.bound(share)
        if bound is not None:
            bucket = self._bucket(share, bound, now_ms)
            bucket.tokens(bound, self._windows, now_ms)
            bucket.take(number)

    def _bucket(self, share: Share, bound: float, now_ms: int) -> TokenBucket:
        bucket = self._buckets.get(share)
        if bucket is None:
            bucket = self._buckets[share] = TokenBucket(bound, self._windows, now_ms)
            if len(self._buckets) > self._tracked_max:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(share)
        return bucket
