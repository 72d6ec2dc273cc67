"""What the replicas of a cluster, queried in one pass, prove together about their Raft groups.

Problem: a pod may go only if every Raft group keeps a majority without it, and each replica knows only part of that.
Mechanism: for every group that any replica reports, the leader's own view is used, because only the leader knows how
far each voter is (`match`). A leader counts only if no replica reports a higher term: an old leader that has not
noticed yet would report stale indexes. A group without such a leader is *headless*, which never counts as "nothing to
lose". A voter whose data folder was replaced is gone, though its leader may still report how far it was: which folder
votes is compared with the newest that any replica knows to be bound.

Deliberately absent: any memory of earlier passes, and any trust in a replica's report about another replica's progress.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster_operator.world.cluster import RaftGroupView, ReplicaView

CONTROLLER_GROUP = 0
NAMED_MAX = 5
"""A message names this many groups and counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    leader: int
    """Broker id."""
    view: RaftGroupView
    replaced: frozenset[int] = frozenset()
    """Brokers whose voter in this group is a data folder that was replaced: it is gone, whatever its match."""

    def match_of(self, broker: int) -> int | None:
        """Index known to be on `broker`; None if the leader does not report it."""
        if broker == self.leader:
            return self.view.match.get(broker, self.view.last_index)
        return self.view.match.get(broker)

    @property
    def unheard(self) -> frozenset[int]:
        """Voters of whom a leader knows nothing yet, as of all others when it was elected; and those that it does not
        count."""
        told = self.view.match
        return frozenset(one for one in self.view.voters if not told.get(one) and one not in self.replaced)

    def caught_up(self, broker: int, entries_max: int) -> bool:
        match = self.match_of(broker)
        return match is not None and broker not in self.replaced and self.view.last_index - match <= entries_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    led: Mapping[int, Led]
    headless: tuple[int, ...]
    """Reported groups without a leader beyond doubt, ascending."""
    names: Mapping[int, str]

    @property
    def controller_leader(self) -> int | None:
        led = self.led.get(CONTROLLER_GROUP)
        return led.leader if led is not None else None

    @property
    def changing(self) -> tuple[int, ...]:
        """Groups that have not taken in the new data folder of a replaced replica, ascending."""
        return tuple(sorted(number for number, led in self.led.items() if led.replaced))

    @property
    def complete(self) -> bool:
        """The controller group was reported (so replicas were really queried), and no group is headless."""
        return CONTROLLER_GROUP in self.led and not self.headless

    def naming(self, groups: Iterable[int]) -> str:
        """The groups' names for a message; only a few are named."""
        known = sorted(groups)
        names = ", ".join(self.names.get(group, f"group {group}") for group in known[:NAMED_MAX])
        return names + (f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else "")


def survey(replicas: Iterable[ReplicaView]) -> Survey:
    """Every group that the replicas report, with its leader if there is one beyond doubt."""
    told: dict[int, list[tuple[int, RaftGroupView]]] = {}
    newest: dict[int, int] = {}
    for replica in replicas:
        for broker, seat in replica.seats.items():
            newest[broker] = max(seat.binding, newest.get(broker, 0))
        for group in replica.groups:
            told.setdefault(group.group, []).append((replica.broker_id, group))
    led: dict[int, Led] = {}
    for number, views in told.items():
        found = _leading(views)
        if found is not None:
            leader, view = found
            replaced = frozenset(one for one in view.voters if view.bindings.get(one, 0) != newest.get(one, 0))
            led[number] = Led(leader=leader, view=view, replaced=replaced)
    return Survey(
        led=led,
        headless=tuple(sorted(set(told) - set(led))),
        names={number: _name(views[0][1]) for number, views in told.items()},
    )


def controller_leader(replicas: Iterable[ReplicaView]) -> int | None:
    """Broker id of the leader of the controller group, if there is one beyond doubt. Asked many times in a pass, so it
    looks at that group only."""
    views = [(one.broker_id, view) for one in replicas for view in one.groups if view.group == CONTROLLER_GROUP]
    found = _leading(views)
    return None if found is None else found[0]


def _leading(views: Sequence[tuple[int, RaftGroupView]]) -> tuple[int, RaftGroupView] | None:
    """Which of the replicas of one group leads it in the newest term that any of them knows."""
    term = max((view.term for _, view in views), default=0)
    leaders = [(broker, view) for broker, view in views if view.role == "leader" and view.term == term]
    return leaders[0] if len(leaders) == 1 else None


def objection(survey: Survey, *, without: int, serving: frozenset[int], entries_max: int) -> str | None:
    """Why broker `without` may not go now; None when every group with a voter there keeps a caught-up majority.

    `serving` holds the brokers whose pod is Ready and whose admin API answered in this pass: only they count. The
    majority is of *all* voters of a group (3 of 5, 2 of 3), as Raft counts it. A group with one voter (`only_there`)
    does not object: nobody could ever stand in for it, so waiting would help nobody.
    """
    if CONTROLLER_GROUP not in survey.led:
        return "the leader of the controller group is not known"
    if survey.headless:
        return f"no leader is known of {survey.naming(survey.headless)}"
    weak = [
        number
        for number, led in survey.led.items()
        if without in led.view.voters
        and led.view.voters != (without,)
        and not _survives(led, without, serving, entries_max)
    ]
    if weak:
        return f"without it there would be no caught-up majority of {survey.naming(weak)}"
    return None


def only_there(survey: Survey, broker: int) -> tuple[int, ...]:
    """Groups of which `broker` is the only voter: partitions of topics with one replica. They are away while it is."""
    return tuple(sorted(number for number, led in survey.led.items() if led.view.voters == (broker,)))


def behind(survey: Survey, broker: int, entries_max: int) -> tuple[int, ...]:
    """Groups in which `broker` votes and is not known to be caught up."""
    return tuple(
        sorted(
            number
            for number, led in survey.led.items()
            if broker in led.view.voters and not led.caught_up(broker, entries_max)
        )
    )


def without_majority(
    survey: Survey, serving: frozenset[int], entries_max: int, answering: frozenset[int] = frozenset()
) -> tuple[int, ...]:
    """Groups whose leader does not see a caught-up majority among `serving`, and would not if all of these were caught
    up of whom it has not heard. `answering`: brokers that answered in this pass, whose pods need not be Ready yet: a
    new one votes seconds before the kubelet calls it Ready. They count where the leader knows them to be caught up."""
    return tuple(
        sorted(
            number
            for number, led in survey.led.items()
            if not _survives(led, None, serving | answering, entries_max, spared=led.unheard & serving)
        )
    )


def unproven(survey: Survey, serving: frozenset[int], entries_max: int) -> tuple[int, ...]:
    """Groups whose leader does not see a caught-up majority among `serving`: those of `without_majority`, and those
    whose leader was elected a moment ago."""
    return tuple(sorted(n for n, led in survey.led.items() if not _survives(led, None, serving, entries_max)))


def _survives(
    led: Led, without: int | None, serving: frozenset[int], entries_max: int, spared: frozenset[int] = frozenset()
) -> bool:
    """`spared`: those that count as caught up."""
    voters = led.view.voters
    fit = sum(1 for v in voters if v != without and v in serving and (v in spared or led.caught_up(v, entries_max)))
    return fit >= len(voters) // 2 + 1


def _name(view: RaftGroupView) -> str:
    if view.group == CONTROLLER_GROUP:
        return "the controller group"
    if view.topic is None or view.partition is None:
        return f"group {view.group}"
    return f"{view.topic}-{view.partition}"
