"""Which server is the primary, by what Sentinels say of it. Values in, values out.

Problem: each Sentinel tells what it knows, and one that is cut off goes on telling the primary of before the fail-over
until it hears of another. Mechanism: each fail-over has a greater configuration epoch (Redis Sentinel,
"Configuration epochs"), so of all answers the one with the greatest epoch is the newest; a server that Sentinels who
know that epoch take for down is nobody to go to. The Sentinel that carries a fail-over out has the new epoch as soon as
the next primary is one, and goes on telling the address of the one before until all replicas follow the next; so while
it says `failover_in_progress`, its address is nobody's to go to, though its epoch counts. What this does not do: ask
(`runtime.redis_sentinels`), or tell a Sentinel that is cut off from one that is alone: where no other answers, it is
believed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster_coordinator.redis_streams.addresses import Address, address_of, text_of
from muster_coordinator.redis_streams.answers import pairs

_NOT_TO_GO_TO = {"s_down", "o_down", "failover_in_progress"}


class SaidPrimary(NamedTuple):
    """One Sentinel's answer to SENTINEL MASTER."""

    address: Address
    config_epoch: int
    down: bool
    """As this Sentinel sees it; or it is making another one the primary."""


class NoPrimary(Exception):
    """Nobody is there to go to, in words."""


def said_primary(answer: Mapping[Any, Any] | Sequence[Any]) -> SaidPrimary:
    """Of the answer's names and values, as bytes. Raises ValueError."""
    try:
        told = {text_of(name): text_of(value) for name, value in pairs(answer)}
        address = address_of(told["ip"], told["port"])
        return SaidPrimary(address, int(told["config-epoch"]), not _NOT_TO_GO_TO.isdisjoint(told["flags"].split(",")))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no answer of a Sentinel: {error!r}") from error


def primary(name: str, said: Iterable[SaidPrimary], problems: Iterable[str]) -> Address:
    """Where it is, by all answers; `problems` are those of Sentinels that gave none. Raises NoPrimary."""
    answers = list(said)
    if not answers:
        raise NoPrimary(f"no Sentinel tells where {name} is: {'; '.join(problems) or 'none was asked'}")
    newest = max(one.config_epoch for one in answers)
    up = [one.address for one in answers if one.config_epoch == newest and not one.down]
    if not up:
        (host, port), *_ = (one.address for one in answers if one.config_epoch == newest)
        raise NoPrimary(f"Sentinels say that {name} at {host}:{port} is down, or is being replaced")
    return up[0]
