"""Whom `muster recover --execute` asks before it gives folders up, and what it wants typed (ADR 40)."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.recover import _agree, _ask_the_others
from muster_coordinator.cli.recover_peers import Presence, ask_all
from muster_coordinator.cli.recover_report import lost
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.multiraft.payloads import Hello

from tests.cli.peers_at_addresses import greeting, listening
from tests.replica.recovery.test_plan import CONTROLLER, OFFSETS, folder, surveyed


def peers(**addresses: tuple[str, int]) -> Any:
    """Settings with these addresses, `b1` and so on; nobody listens at the others."""
    return SimpleNamespace(peers={number: addresses.get(f"b{number}", ("127.0.0.1", 1)) for number in range(3)})


def refused(settings: Any) -> str:
    with pytest.raises(CliError) as error:
        _ask_the_others(settings, surveyed())
    assert error.value.code == Exit.REFUSED
    return str(error.value)


def test_a_replica_that_answers_is_not_given_up() -> None:
    hello = Hello(BrokerId(2), folder(2), 9, "c")
    with listening(greeting(hello)) as address:
        said = refused(peers(b2=address))
    assert f"broker 2 at 127.0.0.1:{address[1]} is there, with data folder {folder(2).hex()}" in said


def test_a_frozen_replica_is_not_given_up() -> None:
    held: list[socket.socket] = []
    with listening(lambda one: (held.append(one), one.shutdown(socket.SHUT_WR))) as address:
        said = refused(peers(b1=address))
    assert "does not say who it is" in said
    for connection in held:
        connection.close()


def test_no_other_word_is_the_cluster_s_id() -> None:
    _agree(surveyed(), "c")
    for word in ("C", "yes", "cc", " c", "c "):
        with pytest.raises(CliError, match="nothing was changed"):
            _agree(surveyed(), word)


def test_each_other_seat_is_asked_and_told() -> None:
    hello = Hello(BrokerId(1), b"n" * 16, 1, "")
    found = surveyed()
    with listening(greeting(hello)) as address:
        answers = ask_all(
            found.identity, found.record, {BrokerId(0): address, BrokerId(1): address, BrokerId(2): address}
        )
    assert [(one.broker, one.presence) for one in answers] == [(1, Presence.ANOTHER), (2, Presence.UNKNOWN)], (
        "who greets as another broker than the one that was dialled is nobody that is known"
    )


def test_what_is_lost_is_said_of_each_kind_of_group() -> None:
    whole = OFFSETS
    assert lost(whole) == "records from offset 17 on"
    assert lost(CONTROLLER) == "changes behind entry 9"
    assert lost(whole._replace(suspended=True)) == (
        "records from offset 17 on, and entries before it that this folder has lost"
    )
    assert lost(whole._replace(trouble="its checkpoint is damaged")) == "all of it: its checkpoint is damaged"
    unseen = whole._replace(last_index=0, log_end=0)
    assert lost(unseen) == "all of it: nothing is here"
    assert lost(unseen._replace(suspended=True)) == "all of it: the WAL has lost it; keep a copy of its files"
