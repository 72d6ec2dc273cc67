"""Whom to believe of Sentinels that say different things: the rule alone, on what Sentinels of Redis 7.0 answer."""

import pytest
from muster_coordinator.redis_streams.sentinels import NoPrimary, SaidPrimary, primary, said_primary

OLD, NEW = ("10.0.0.1", 6379), ("10.0.0.2", 6379)


def answer(**other: str) -> list[bytes]:
    """Of SENTINEL MASTER, with a part of what is in it."""
    told = {"name": "Orders", "ip": "10.0.0.1", "port": "6379", "runid": "", "flags": "master", "quorum": "2"}
    told |= {"config-epoch": "0", **{name.replace("_", "-"): value for name, value in other.items()}}
    return [part.encode() for pair in told.items() for part in pair]


def test_an_answer_tells_address_epoch_and_whether_the_server_is_down() -> None:
    assert said_primary(answer(config_epoch="7")) == SaidPrimary(OLD, 7, False)
    for flags in ("master,s_down", "s_down,master,disconnected", "master,o_down", "master,failover_in_progress"):
        assert said_primary(answer(flags=flags)).down, flags
    for flags in ("master,force_failover", "master,disconnected"):
        assert not said_primary(answer(flags=flags)).down, flags
    assert said_primary(answer(ip="redis-0.redis.orders.svc")).address == ("redis-0.redis.orders.svc", 6379)


@pytest.mark.parametrize(
    "broken",
    [
        [],
        answer()[:-1],
        answer(port="0"),
        answer(port="65536"),
        answer(port="x"),
        answer(ip=""),
        [b"ip", b"10.0.0.1", b"port", b"6379", b"flags", b"master"],
        [b"ip", None],
        [b"ip", b"\xff"],
        [1, 2],
        [b"ip", 2**40],
        answer(ip="a b"),
        answer(ip="[::1]"),
        answer(ip="a" * 256),
    ],
)
def test_what_is_no_answer_is_told_as_one_error(broken: list[bytes]) -> None:
    with pytest.raises(ValueError, match="Sentinel"):
        said_primary(broken)


def test_the_greatest_configuration_epoch_is_believed_however_many_say_otherwise() -> None:
    late = SaidPrimary(OLD, 3, False)
    for said in ([late, late, SaidPrimary(NEW, 4, False)], [SaidPrimary(NEW, 4, False), late]):
        assert primary("Orders", said, []) == NEW
    cut_off = SaidPrimary(NEW, 4, True)
    assert primary("Orders", [cut_off, SaidPrimary(NEW, 4, False), late], []) == NEW, "one that does not reach it"


def test_who_carries_a_fail_over_out_tells_the_primary_of_before_under_the_new_epoch_and_is_not_believed() -> None:
    """As three Sentinels of Redis 7.0.15 answer once the next primary is one, and the one before is there again."""
    leader = said_primary(answer(flags="master,failover_in_progress", config_epoch="1"))
    told = said_primary(answer(ip=NEW[0], flags="master,disconnected", config_epoch="1"))
    not_told = said_primary(answer(flags="master,disconnected"))
    for said in ([leader, told], [told, leader], [leader, not_told, told]):
        assert primary("Orders", said, []) == NEW
    for said in ([leader], [leader, not_told], [not_told, leader]):
        with pytest.raises(NoPrimary, match=r"10\.0\.0\.1:6379 is down, or is being replaced"):
            primary("Orders", said, [])
    begun = said_primary(answer(flags="master,failover_in_progress"))
    assert primary("Orders", [begun, not_told], []) == OLD, "no other one is the primary yet"


def test_a_server_that_is_down_by_all_is_nobody_to_go_to() -> None:
    with pytest.raises(NoPrimary, match=r"Orders at 10\.0\.0\.2:6379 is down"):
        primary("Orders", [SaidPrimary(NEW, 4, True), SaidPrimary(OLD, 3, False)], ["10.0.0.9:26379: refused"])
    with pytest.raises(NoPrimary, match="no Sentinel tells where Orders is: a; b"):
        primary("Orders", [], ["a", "b"])
