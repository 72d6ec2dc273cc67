"""What all brokers coordinate, as one list: groups, or transactional ids.

Problem: each broker lists what it coordinates, and they are asked one after the other. What moves meanwhile from a
broker that is still to be asked to one that was asked is in no list; what belongs to a partition without a leader is in
none either. Kafka's tools show such a list as if it were whole. Mechanism: the leaders of the topic whose partitions
the coordinators lead, with their epochs, are read before and after. If they differ, or one is missing, all are asked
again; when the time is up, the list comes with a sentence that says what it lacks.

What this does not do: notice it for who may not describe the topic, or on brokers that tell no epoch and where a
leadership went away and came back meanwhile.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.kafka_client import RETRY_PAUSE_S, KafkaSide, Untyped

Leaders = Mapping[int, tuple[int, int]]
"""Partition -> (leader, its epoch); negative: none, not told."""
NAMED_MAX = 5
"""A sentence names this many partitions and counts the rest."""


class Listed(NamedTuple):
    """The lists of the brokers that answered."""

    of_brokers: dict[int, list[Untyped]]
    lacks: list[str]
    """A sentence for each thing that may be missing; none: the list is whole."""


def of_all_brokers(side: KafkaSide, topic: str, things: str, ask: Callable[[Untyped, int], list[Untyped]]) -> Listed:
    """`ask(admin, broker)`: what one broker lists. `things` in sentences: "groups". Raises CliError if nobody tells the
    brokers."""
    ends_s = time.monotonic() + side.timeout_s
    while True:
        before = _leaders(side, topic)
        listed = _listed(side, things, ask)
        after = _leaders(side, topic)
        if listed.lacks or before is None or after is None:
            return listed
        unled = sorted(number for number, (leader, _) in after.items() if leader < 0)
        if before == after and not unled:
            return listed
        if time.monotonic() >= ends_s:
            return listed._replace(lacks=[_incomplete(topic, things, unled)])
        time.sleep(RETRY_PAUSE_S)


def _listed(side: KafkaSide, things: str, ask: Callable[[Untyped, int], list[Untyped]]) -> Listed:
    listed = Listed({}, [])
    for broker in side.ask(lambda admin: admin.describe_cluster()["brokers"], "cannot list brokers"):
        number: int = broker["broker_id"]

        def of_one(admin: Untyped, number: int = number) -> list[Untyped]:
            return ask(admin, number)

        try:
            listed.of_brokers[number] = side.ask(of_one, f"cannot list {things}")
        except CliError as error:
            why = "is down" if broker.get("is_fenced") else f"does not answer ({error})"
            listed.lacks.append(f"broker {number} {why}; {things} that it still coordinates are missing here")
    return listed


def _leaders(side: KafkaSide, topic: str) -> Leaders | None:
    """None: there is no such topic yet, or nobody tells."""
    try:
        found: list[dict[str, Any]] = side.ask(lambda admin: admin.describe_topics([topic]), f"cannot describe {topic}")
    except CliError:
        return None
    one = next((one for one in found if one["name"] == topic), None)
    if one is None or one["error_code"]:
        return None
    return {
        part["partition_index"]: (part.get("leader_id", -1), part.get("leader_epoch", -1)) for part in one["partitions"]
    }


def _incomplete(topic: str, things: str, unled: list[int]) -> str:
    if not unled:
        return f"coordinators moved each time that all brokers were asked; {things} may be missing here, or twice"
    names = ", ".join(map(str, unled[:NAMED_MAX]))
    names += f" and {len(unled) - NAMED_MAX} more" if len(unled) > NAMED_MAX else ""
    if len(unled) == 1:
        return f"partition {names} of {topic} has no leader; {things} of it are missing here"
    return f"partitions {names} of {topic} have no leader; {things} of them are missing here"
