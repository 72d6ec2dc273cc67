"""Which connections are taken: numbers and rates of replica, listener and address (KIP-402, KIP-612)."""

from typing import Any

import pytest
from muster_coordinator.quotas.admission import Admission, Admitted, ListenerLimits, Refused
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.security.quota_entities import DEFAULT

from tests.made_settings import admission_limits

WINDOWS = Windows(11, 1_000)


def made(**changes: Any) -> Admission:
    most = admission_limits(**{"rate_max": 1_000_000, **changes})
    return Admission(most, WINDOWS, 5_000)


def taken(admission: Admission, address: str = "10.0.0.1", listener: str = "A", now_ms: float = 0) -> bool:
    return isinstance(admission.admit(listener, address, now_ms), Admitted)


def test_all_listeners_share_the_number_of_the_replica() -> None:
    admission = made(connections_max=2)
    assert taken(admission, listener="A")
    assert taken(admission, listener="B")
    assert admission.admit("A", "10.0.0.1", 0) == Refused("max.connections")
    admission.gone("B", "10.0.0.1")
    assert taken(admission, listener="A")


def test_a_listener_has_a_number_of_its_own() -> None:
    admission = made(listeners={"A": ListenerLimits(connections_max=1)})
    assert taken(admission)
    assert admission.admit("A", "10.0.0.2", 0) == Refused("listener.name.a.max.connections")
    assert taken(admission, listener="B")
    admission.gone("A", "10.0.0.1")
    assert taken(admission)


def test_an_address_has_a_number_on_all_listeners_together_and_some_have_another() -> None:
    admission = made(per_address_max=2, per_address_overrides={"10.0.0.9": 3, "::1": 0, "10.0.0.8": 0})
    assert [taken(admission, listener=name) for name in "ABA"] == [True, True, False]
    assert [taken(admission, "10.0.0.9") for _ in range(4)] == [True, True, True, False]
    assert not taken(admission, "10.0.0.8")
    assert not taken(admission, "0:0:0:0:0:0:0:1"), "the same address, as Java writes it"
    assert taken(admission, "10.0.0.7")
    admission.gone("A", "10.0.0.1")
    assert taken(admission)


def test_what_comes_faster_than_a_listeners_rate_is_read_later_and_another_listener_at_once() -> None:
    admission = made(rate_max=1_000, listeners={"A": ListenerLimits(rate_max=10)})
    delays = []
    for _ in range(30):
        answer = admission.admit("A", "10.0.0.1", 0)
        assert isinstance(answer, Admitted)
        delays.append(answer.delay_ms)
    assert delays[:2] == [0, 0]
    assert delays[-1] == 29 * 100 - 100
    other = admission.admit("B", "10.0.0.1", 0)
    assert other == Admitted(0)


def test_who_would_be_read_too_late_is_refused() -> None:
    admission = made(rate_max=1)
    answers = [admission.admit("A", "10.0.0.1", 0) for _ in range(8)]
    assert [isinstance(one, Admitted) for one in answers] == [True] * 6 + [False] * 2
    assert answers[-1] == Refused("max.connection.creation.rate")


def test_an_address_above_its_quota_is_refused_for_a_window_at_most_and_its_neighbour_is_not() -> None:
    admission = made()
    admission.set({(("ip", "10.0.0.1"),): (("connection_creation_rate", 2.0),)})
    now = [admission.admit("A", "10.0.0.1", 0) for _ in range(21)]
    assert all(isinstance(one, Admitted) for one in now[:20]), "ten windows of two"
    assert now[20] == Refused("connection_creation_rate", 500)
    for _ in range(500):
        admission.admit("A", "10.0.0.1", 0)
    assert admission.admit("A", "10.0.0.1", 1) == Refused("connection_creation_rate", 499), "refused ones do not count"
    assert all(taken(admission, "10.0.0.2") for _ in range(500))
    assert taken(admission, "10.0.0.1", now_ms=11_000)


def test_an_address_without_a_quota_has_the_default_for_itself() -> None:
    admission = made()
    rates = {(("ip", DEFAULT),): 1.0, (("ip", "10.0.0.1"),): 100.0}
    admission.set({entity: (("connection_creation_rate", rate),) for entity, rate in rates.items()})
    for address, most in (("10.0.0.2", 10), ("10.0.0.3", 10), ("10.0.0.1", 1_000)):
        assert sum(taken(admission, address) for _ in range(most + 5)) == most
    admission.set({})
    assert taken(admission, "10.0.0.2"), "a quota that was removed holds nobody"


@pytest.mark.parametrize("close_ms", [1_000])
def test_the_longest_a_refused_socket_stays_open(close_ms: int) -> None:
    admission = made()
    admission.set({(("ip", DEFAULT),): (("connection_creation_rate", 1e-6),)})
    assert admission.admit("A", "10.0.0.1", 0) == Refused("connection_creation_rate", close_ms)
