"""Which of the eight levels decides, and who shares: by the table of Kafka's documentation ("Quotas", KIP-55)."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.quotas.precedence import Bounds, Share
from muster_coordinator.security.quota_entities import CLIENT_ID, DEFAULT, USER, QuotaEntity, entity_of

TABLE: list[tuple[str | None, str | None, str]] = [
    ("name", "name", "user and client id"),
    ("name", "default", "user and client id"),
    ("name", None, "user"),
    ("default", "name", "user and client id"),
    ("default", "default", "user and client id"),
    ("default", None, "user"),
    (None, "name", "client id"),
    (None, "default", "client id"),
]
"""Kafka's order: what the entity says of the user, of the client id; who share its quota."""


def entity(user: str | None, client_id: str | None, names: tuple[str, str] = ("anna", "app")) -> QuotaEntity:
    said = {USER: (user, names[0]), CLIENT_ID: (client_id, names[1])}
    return entity_of((kind, DEFAULT if how == "default" else name) for kind, (how, name) in said.items() if how)


def levels() -> Iterator[tuple[int, QuotaEntity]]:
    for place, (user, client_id, _) in enumerate(TABLE):
        yield place, entity(user, client_id)


SHARES = {"user and client id": Share("anna", "app"), "user": Share("anna", ""), "client id": Share("", "app")}


@pytest.mark.parametrize("held", range(2**8))
def test_the_first_level_that_has_a_quota_decides(held: int) -> None:
    """All 256 sets of levels, each with a bound of its own."""
    given_levels = {entity: float(place + 1) for place, entity in levels() if held >> place & 1}
    bounds = Bounds(given_levels)
    share = bounds.share("anna", "app")
    first = next((place for place in range(8) if held >> place & 1), None)
    if first is None:
        assert bounds.bound(share) is None
        return
    assert bounds.bound(share) == first + 1
    assert share == SHARES[TABLE[first][2]]


@given(st.integers(0, 2**8 - 1), st.sampled_from(["", "anna", "bert"]), st.sampled_from(["", "app", "tool"]))
def test_quotas_of_others_hold_for_nobody(held: int, user: str, client_id: str) -> None:
    """Whoever asks is never held by a level that names somebody else."""
    given_levels = {entity: float(place + 1) for place, entity in levels() if held >> place & 1}
    bounds = Bounds(given_levels)
    bound = bounds.bound(bounds.share(user, client_id))
    if bound is None:
        return
    of_user, of_client, _ = TABLE[int(bound) - 1]
    assert of_user != "name" or user == "anna"
    assert of_client != "name" or client_id == "app"
    assert of_user is None or user
    assert of_client is None or client_id


@given(st.integers(0, 2**8 - 1))
def test_who_share_a_rate_have_one_bound(held: int) -> None:
    given_levels = {entity: float(place + 1) for place, entity in levels() if held >> place & 1}
    bounds = Bounds(given_levels)
    found: dict[Share, set[float | None]] = {}
    for user, client_id in itertools.product(["anna", "bert"], ["app", "tool", ""]):
        share = bounds.share(user, client_id)
        found.setdefault(share, set()).add(bounds.bound(share))
    assert all(len(one) == 1 for one in found.values())


def test_clients_of_a_user_share_and_users_of_a_default_do_not() -> None:
    bounds = Bounds({entity("name", None): 1.0, entity("default", None): 2.0})
    assert bounds.share("anna", "a") == bounds.share("anna", "b") == Share("anna", "")
    assert bounds.share("bert", "a") != bounds.share("carl", "a")
    assert bounds.bound(bounds.share("carl", "a")) == 2.0


def test_users_share_the_quota_of_a_client_id() -> None:
    bounds = Bounds({entity(None, "name"): 1.0})
    assert bounds.share("anna", "app") == bounds.share("bert", "app") == Share("", "app")
    assert bounds.bound(bounds.share("anna", "tool")) is None


def test_a_client_without_an_id_is_held_by_quotas_of_users_alone() -> None:
    """DefaultQuotaCallback: the empty name finds neither the pairs' quotas nor those of client ids."""
    both = Bounds({entity("default", "default"): 1.0, entity("default", None): 2.0, entity(None, "default"): 3.0})
    assert both.bound(both.share("anna", "")) == 2.0
    alone = Bounds({entity(None, "default"): 3.0})
    assert alone.bound(alone.share("anna", "")) is None


def test_quotas_of_addresses_are_none_of_clients() -> None:
    assert not Bounds({(("ip", "10.0.0.1"),): 1.0})
