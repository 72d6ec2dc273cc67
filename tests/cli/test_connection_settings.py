"""Limits of connections from a file: of the replica, of one listener, of addresses; and the windows of quotas."""

import pytest
from muster_coordinator.node_settings import admission_limits, quota_windows
from muster_coordinator.quotas.admission import ListenerLimits
from muster_coordinator.quotas.rate import Windows
from muster_coordinator.settings import ConfigError, Settings, settings_of

LISTENERS = {"listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9094"}


def made(values: dict[str, str]) -> Settings:
    return settings_of({"node.id": "0", "log.dirs": "/data", **LISTENERS, **values})


def test_limits_of_a_listener_stand_beside_the_replicas() -> None:
    settings = made(
        {
            "max.connections": "500",
            "max.connection.creation.rate": "70",
            "listener.name.outside.max.connections": "100",
            "listener.name.outside.max.connection.creation.rate": "20",
            "max.connections.per.ip": "7",
            "max.connections.per.ip.overrides": "10.0.0.7:500, ::1:0,[fe80::1]:9",
        }
    )
    most = admission_limits(settings)
    assert (most.connections_max, most.rate_max, most.per_address_max) == (500, 70, 7)
    assert most.listeners == {"OUTSIDE": ListenerLimits(connections_max=100, rate_max=20)}
    assert most.per_address_overrides == {"10.0.0.7": 500, "::1": 0, "fe80::1": 9}


def test_without_them_there_are_kafkas_windows_and_no_limit_of_an_address() -> None:
    settings = made({})
    assert admission_limits(settings).per_address_max is None
    assert admission_limits(settings).listeners == {}
    assert quota_windows(settings) == Windows(11, 1_000)
    other = made({"quota.window.num": "3", "quota.window.size.seconds": "2"})
    assert quota_windows(other) == Windows(3, 2_000)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("listener.name.outside.max.connections", "0"),
        ("listener.name.outside.max.connection.creation.rate", "many"),
        ("listener.name.nowhere.max.connections", "5"),
        ("max.connections.per.ip.overrides", "host:5"),
        ("max.connections.per.ip.overrides", "10.0.0.1"),
        ("max.connections.per.ip.overrides", "10.0.0.1:-1"),
        ("max.connections.per.ip.overrides", "10.0.0.1:1,10.0.0.1:2"),
        ("quota.window.num", "0"),
        ("quota.window.num", "1001"),
        ("quota.window.size.seconds", "0"),
        ("quota.window.size.seconds", "3601"),
    ],
)
def test_a_wrong_one_ends_the_start_and_is_named(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key.rpartition(".max.")[0] or key):
        made({key: text})
