"""Clients that do as they are told are held at their bound, for as long as one likes; and the number of rates is."""

import pytest
from muster_coordinator.quotas import limits
from muster_coordinator.quotas.client_quotas import ClientQuotas, Kind, KindQuotas
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.security.quota_entities import DEFAULT, QuotaEntity, entity_of

WINDOWS = Windows(11, 1_000)
ANNA: QuotaEntity = (("user", "anna"),)


def quotas(bound: float = 1_000_000.0, entity: QuotaEntity = ANNA, **more: int) -> KindQuotas:
    made = KindQuotas(WINDOWS, **more)
    made.set({entity: bound})
    return made


@pytest.mark.parametrize("size", [2_000, 16_384, 1_000_000, 9_999_999])
@pytest.mark.parametrize("window_s", [60, 600])
def test_a_producer_that_is_muted_as_told_is_held_at_its_bound(size: int, window_s: int) -> None:
    """Requests one after the other, as fast as 1 ms each. After the ten seconds that whoever begins may use at once,
    the rate is the bound."""
    held, bound = quotas(), 1_000_000
    now_ms, sent, from_ms, counted = 0, 0, 30_000, 0
    while now_ms < from_ms + window_s * 1_000:
        sent += size
        if now_ms >= from_ms:
            counted += size
        now_ms += 1 + held.record("anna", "app", size, now_ms)
    assert counted / window_s == pytest.approx(bound, rel=0.1)


def test_two_clients_of_a_user_share_its_bound() -> None:
    held, bound, size = quotas(), 1_000_000, 10_000
    free_at = [0, 0]
    counted = [0, 0]
    for now_ms in range(90_000):
        for at in (0, 1):
            if free_at[at] <= now_ms:
                counted[at] += size if now_ms >= 30_000 else 0
                free_at[at] = now_ms + 1 + held.record("anna", f"app-{at}", size, now_ms)
    assert sum(counted) / 60 == pytest.approx(bound, rel=0.1)
    assert min(counted) > 0


def test_a_consumer_whose_throttled_fetches_are_not_counted_is_held_at_its_bound() -> None:
    """Fetches of as many bytes as it may take at once, as a client that is behind would send."""
    held, bound = quotas(), 1_000_000
    most = held.most_at_once("anna", "app")
    assert most == 10 * bound
    now_ms, counted = 0, 0
    while now_ms < 90_000:
        throttle_ms = held.record("anna", "app", 500_000, now_ms)
        if throttle_ms:
            held.take_back("anna", "app", 500_000, now_ms)
        elif now_ms >= 30_000:
            counted += 500_000
        now_ms += 1 + throttle_ms
    assert counted / 60 == pytest.approx(bound, rel=0.1)


def test_a_fetch_as_large_as_may_be_is_let_through_once_the_window_is_empty() -> None:
    held = quotas()
    most = held.most_at_once("anna", "app")
    assert most is not None
    assert held.record("anna", "app", most, 0) == 0
    assert held.record("anna", "app", most, 11_000) == 0
    assert held.record("bert", "app", 10**12, 0) == 0, "no quota is bert's"
    assert held.most_at_once("bert", "app") is None


def test_a_changed_bound_holds_for_what_was_used_before() -> None:
    held = quotas(bound=1_000_000)
    assert held.record("anna", "app", 5_000_000, 0) == 0
    held.set({ANNA: 100_000})
    assert held.record("anna", "app", 1, 1) > 40_000 - 2
    held.set({})
    assert not held.active
    assert held.record("anna", "app", 10**9, 2) == 0
    assert held.tracked == 0, "what nobody is held by is forgotten"


def test_the_number_of_rates_is_bounded_and_who_used_his_last_stays() -> None:
    held = quotas(bound=1_000, entity=(("client-id", DEFAULT),), tracked_max=100)
    for name in range(100):
        held.record("anna", f"app-{name}", 11_000, 0)
    held.record("anna", "app-0", 0, 1)
    held.record("anna", "one more", 1, 1)
    assert held.tracked == 100
    assert held.record("anna", "app-0", 0, 2) > 0, "it was used since"
    assert held.record("anna", "app-1", 0, 2) == 0, "the least recently used one was forgotten"


def test_a_throttle_time_fits_into_its_field() -> None:
    assert quotas(bound=1.0).record("anna", "app", 2.0**53, 0) == limits.THROTTLE_MS_MAX == 2**31 - 1


def test_each_kind_has_quotas_of_its_own_and_time_is_throttled_for_a_window_at_most() -> None:
    both = ClientQuotas(WINDOWS)
    assert not both.active
    pair = entity_of((("user", "anna"), ("client-id", "app")))
    both.set({pair: (("request_percentage", 1.0),), ANNA: (("producer_byte_rate", 5.0), ("request_percentage", 90.0))})
    assert both.active
    kinds = both.kinds
    assert kinds[Kind.PRODUCE].record("anna", "app", 100, 0) == 10_000, "the pair has no quota of this kind"
    assert kinds[Kind.REQUEST].record("anna", "app", 5_000.0, 0) == 1_000
    assert kinds[Kind.REQUEST].record("anna", "other", 800.0, 0) == 0, "80 % is below the user's 90"
    assert not kinds[Kind.FETCH].active
    both.set({(("ip", "10.0.0.1"),): (("connection_creation_rate", 1.0),)})
    assert not both.active
