"""What clients may rely on through faults, judged from what they saw alone. Pure: history in, violations out.

Committed offsets: every key is a linearizable register, no answered refusal is ever read (`tests.sim.check_offsets`).
Idempotent producers: what was acknowledged stands in the log, nothing stands twice, all in the order it was sent.
Members: within one generation of a group a partition has one owner. All: who was served before is served at the end.

It does not say how long anything took: a real Kafka must be judgeable by the same rules on the same slow machine.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.sim.check_offsets import check_offsets
from tests.sim.history import History

OFFSETS, PRODUCERS, OWNERS, STUCK = "linearizability", "exactly once", "one owner a generation", "nobody is stuck"


class Found(NamedTuple):
    """One violation; `rule` is one of the four above."""

    rule: str
    text: str


class Produced(NamedTuple):
    """What a producer of 0, 1, 2, ... to one partition says of itself, at its end."""

    producer: str
    partition: int
    sent: int
    failed: frozenset[int]
    """Given up by the client: they may stand in the log, once, or not."""


class Claim(NamedTuple):
    """A member was told that it owns all of these."""

    group: str
    generation: int
    member: str
    partitions: frozenset[tuple[str, int]]


class Seen(NamedTuple):
    """All of a run."""

    offsets: History
    produced: Sequence[Produced]
    logs: Mapping[int, Sequence[str]]
    """Partition -> values `producer/number`, in the order of the log."""
    claims: Sequence[Claim]
    unserved: Sequence[str]
    """Clients that had no success after the last fault, within their time."""


def check(seen: Seen) -> list[Found]:
    """Every violation of the four rules."""
    return [
        *(Found(OFFSETS, str(one)) for one in check_offsets(seen.offsets)),
        *exactly_once(seen.produced, seen.logs),
        *one_owner(seen.claims),
        *(Found(STUCK, f"{name}: no success after the last fault") for name in seen.unserved),
    ]


def exactly_once(produced: Iterable[Produced], logs: Mapping[int, Sequence[str]]) -> list[Found]:
    """Of each producer, and that a log holds nothing that nobody sent."""
    found: list[Found] = []
    senders: dict[int, set[str]] = defaultdict(set)
    for one in produced:
        senders[one.partition].add(one.producer)
        head = one.producer + "/"
        try:
            numbers = [int(value[len(head) :]) for value in logs.get(one.partition, ()) if value.startswith(head)]
        except ValueError as error:
            found.append(Found(PRODUCERS, f"{one.producer}: a record that it never sent: {error}"))
            continue
        found += _producer(one, numbers)
    for partition, values in logs.items():
        strange = [value for value in values if value.partition("/")[0] not in senders[partition]]
        if strange:
            found.append(Found(PRODUCERS, f"partition {partition}: {strange[0]!r} was sent by nobody"))
    return found


def _producer(one: Produced, numbers: list[int]) -> list[Found]:
    name = f"{one.producer} to partition {one.partition}"
    found = []
    twice = [number for number, times in Counter(numbers).items() if times > 1]
    if twice:
        found.append(Found(PRODUCERS, f"{name}: {len(twice)} records stand twice, first {min(twice)}"))
    breaks = [two for one_before, two in pairwise(numbers) if two < one_before]
    if breaks:
        found.append(Found(PRODUCERS, f"{name}: out of order at {len(breaks)} places, first {breaks[0]}"))
    lost = set(range(one.sent)) - one.failed - set(numbers)
    if lost:
        found.append(Found(PRODUCERS, f"{name}: {len(lost)} acknowledged records are lost, first {min(lost)}"))
    strange = [number for number in numbers if not 0 <= number < one.sent]
    if strange:
        found.append(Found(PRODUCERS, f"{name}: {strange[0]} was never sent"))
    return found


def one_owner(claims: Iterable[Claim]) -> list[Found]:
    """A member's later claim in the same generation adds to its first (cooperative members are told in parts)."""
    found = []
    owners: dict[tuple[str, int, tuple[str, int]], str] = {}
    for claim in claims:
        for partition in sorted(claim.partitions):
            owner = owners.setdefault((claim.group, claim.generation, partition), claim.member)
            if owner != claim.member:
                found.append(
                    Found(
                        OWNERS,
                        f"{claim.group}: {partition} belongs to {owner} and {claim.member} in generation "
                        f"{claim.generation}",
                    )
                )
    return found


def operations(seen: Seen) -> dict[str, int]:
    """How much was judged: answered commits and reads, records of the logs, assignments."""
    answered = [op for op in seen.offsets.ops if op.answer is not None]
    return {
        "commits": sum(1 for op in answered if op.api == 8 and 0 in op.answer.values()),
        "reads": sum(1 for op in answered if op.api == 9 and op.answer.error == 0),
        "of unknown outcome or refused": sum(1 for op in seen.offsets.ops if not _done(op.answer)),
        "records": sum(len(values) for values in seen.logs.values()),
        "assignments": len(seen.claims),
        "generations": len({(claim.group, claim.generation) for claim in seen.claims}),
    }


def _done(answer: object) -> bool:
    if isinstance(answer, dict):
        return 0 in answer.values()
    return getattr(answer, "error", -1) == 0
