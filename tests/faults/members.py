"""Groups of real consumers that come, go, die and freeze while their coordinators do, and what each was told to own.

Two groups on one topic: an eager one of librdkafka, aiokafka and Java, a cooperative one of librdkafka. Now and then
one is killed and replaced, one leaves and comes back, one is frozen for longer than its session, and others own what it
did.
"""

import itertools
import threading
from random import Random

from tests.clients.member import Member
from tests.cluster import wait_until
from tests.faults.checks import Claim

TOPIC = "consumed"
PARTITIONS = 6
SESSION_MS = 6_000
FROZEN_S = 8.0
BETWEEN_S = 6.0
LEAVE_TIMEOUT_S = 20
SETTLE_TIMEOUT_S = 75
EAGER, COOPERATIVE = "eager", "cooperative"


class _Seat:
    """A place in a group; who sits there changes."""

    def __init__(self, bootstrap: str, group: str, client: str, number: int) -> None:
        self.bootstrap, self.group, self.client, self.number = bootstrap, group, client, number
        self.incarnation = itertools.count(1)
        self.member = self._new()

    def _new(self) -> Member:
        return Member(
            self.client,
            bootstrap=self.bootstrap,
            group=self.group,
            topics=[TOPIC],
            assignors=["cooperative-sticky" if self.group == COOPERATIVE else "range"],
            session_ms=SESSION_MS,
            auto_commit_ms=500,
            client_id=f"{self.client}-{self.number}-{next(self.incarnation)}",
        )

    def replace(self) -> Member:
        old, self.member = self.member, self._new()
        return old


class MemberLoad(threading.Thread):
    """`finish` stops the coming and going and waits until both groups own everything once."""

    def __init__(self, bootstrap: str, seed: int, *, java: bool) -> None:
        super().__init__(name="members", daemon=True)
        self.rand = Random(seed)
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        eager = ["librdkafka", "aiokafka", "java" if java else "librdkafka"]
        wanted = [(EAGER, client) for client in eager] + [(COOPERATIVE, "librdkafka")] * 2
        self.seats = [_Seat(bootstrap, group, client, number) for number, (group, client) in enumerate(wanted)]
        self.everyone = [seat.member for seat in self.seats]
        self.changes = 0
        """How often a member froze, died or left."""
        self.ended_alone: list[str] = []
        """How members ended that nobody ended: told, not judged. Who is missing at the end is judged."""

    def run(self) -> None:
        try:
            while not self.ended.wait(self.rand.uniform(0.5, 1.5) * BETWEEN_S):
                # A JVM's start costs both cores for seconds: that one is only frozen.
                seat = self.rand.choice(self.seats)
                if self._ended(seat):
                    continue
                action = self.rand.choice((self._frozen, self._killed, self._left))
                (self._frozen if seat.client == "java" else action)(seat)
                self.changes += 1
        except BaseException as error:  # noqa: BLE001 - raised in settle, on the driver's thread
            self.failure = error

    def _ended(self, seat: _Seat) -> bool:
        """A member that ended by itself is replaced."""
        how = seat.member.ended()
        if how is not None:
            self.ended_alone.append(how)
            self._killed(seat)
        return how is not None

    def _frozen(self, seat: _Seat) -> None:
        seat.member.freeze()
        self.ended.wait(FROZEN_S)
        seat.member.thaw()

    def _killed(self, seat: _Seat) -> None:
        seat.member.kill()
        seat.replace()
        self.everyone.append(seat.member)

    def _left(self, seat: _Seat) -> None:
        old = seat.replace()
        self.everyone.append(seat.member)
        try:
            old.command("close")
            old.wait_event("closed", LEAVE_TIMEOUT_S)
        except (AssertionError, BrokenPipeError):
            old.kill()  # aiokafka may not end when its LeaveGroup is refused; the group goes on without it all the same

    def settle(self) -> list[str]:
        """Groups that do not own everything exactly once within their time."""
        self.ended.set()
        self.join(2 * SETTLE_TIMEOUT_S)
        assert not self.is_alive(), "members do not end"
        if self.failure is not None:
            raise self.failure
        for seat in self.seats:
            self._ended(seat)
        return [group for group in (EAGER, COOPERATIVE) if not self._owned_once(group)]

    def _owned_once(self, group: str) -> bool:
        members = [seat.member for seat in self.seats if seat.group == group]

        def once() -> bool:
            owned = sorted(partition for member in members for partition in set(member.assigned))
            return owned == [(TOPIC, partition) for partition in range(PARTITIONS)]

        try:
            wait_until(f"{group} owns everything once", once, SETTLE_TIMEOUT_S)
        except AssertionError:
            return False
        return True

    def claims(self) -> list[Claim]:
        """Of all members that ever were. After a session that is over a client has no generation: that is no claim."""
        return [
            Claim(str(member.settings["group"]), event["generation"], event["member"], partitions)
            for member in self.everyone
            for event in member.events
            if event["e"] == "assigned" and event["generation"] >= 0
            for partitions in [frozenset((topic, partition) for topic, partition in event["tps"])]
        ]

    def dispose(self) -> None:
        self.ended.set()
        if self.ident is not None:
            self.join(FROZEN_S + 5)
        for member in self.everyone:
            member.dispose()
