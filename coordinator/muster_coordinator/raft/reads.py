"""ReadIndex: reads that wait until a quorum has confirmed, after they arrived, that this leader still leads.

Problem: a deposed leader that does not know it yet must not answer with old state (decision 36).
Mechanism: every read records the commit index at its arrival and the number of the next confirmation round; rounds are
numbered by one strictly growing counter, so an answer to an older round can never confirm a younger read, however
late it comes (raft rule 17). A peer's acknowledgement of round r confirms all reads of rounds up to r. A read that
arrives before the first commit of the term waits for it, and then reads at or after the term's first entry:
everything any earlier leader committed lies below that.

A retry is a new `add` with a fresh context; contexts are the caller's and are only given back.
"""

from collections import deque

from muster_coordinator.raft import quorum
from muster_coordinator.raft.messages import ReadGrant

NO_ROUND = -1


class ReadQueue:
    """Reads of one leader, oldest first."""

    __slots__ = ("_confirmed", "_reached", "_ungranted")

    def __init__(self) -> None:
        self._ungranted: deque[tuple[int, int, int]] = deque()  # (context, round, index)
        self._reached: dict[int, int] = {}
        self._confirmed = NO_ROUND

    def __len__(self) -> int:
        return len(self._ungranted)

    def start(self, config: quorum.Config, node: int) -> None:
        """Leadership of `node` began; it confirms every round itself, which is enough for a single voter."""
        assert not self._ungranted, "reads belong to one leadership"
        self._reached = {node: quorum.UNBOUNDED}
        self._confirmed = quorum.committed(config, self._reached, NO_ROUND)

    def add(self, context: int, round_no: int, index: int) -> None:
        """A read that any round from `round_no` on confirms, to be answered at `index` or later."""
        if self._ungranted:
            # Invariant: rounds do not fall along the queue, so its head is always confirmed first.
            round_no = max(round_no, self._ungranted[-1][1])
        self._ungranted.append((context, round_no, index))

    def reached(self, config: quorum.Config, peer: int, round_no: int) -> None:
        """`peer` confirmed our leadership in `round_no`."""
        if round_no > self._reached.get(peer, NO_ROUND):
            self._reached[peer] = round_no
            self._confirmed = quorum.committed(config, self._reached, NO_ROUND)

    def reconfigured(self, config: quorum.Config) -> None:
        """Others confirm from now on: by what they have confirmed so far."""
        self._confirmed = quorum.committed(config, self._reached, NO_ROUND)

    def granted(self) -> list[ReadGrant]:
        """Take the reads that are confirmed. Only to be called once an entry of the term is committed."""
        grants: list[ReadGrant] = []
        ungranted = self._ungranted
        while ungranted and ungranted[0][1] <= self._confirmed:
            context, _, index = ungranted.popleft()
            grants.append(ReadGrant(context, index))
        return grants

    def lost(self) -> list[int]:
        """Leadership ended: the contexts of all ungranted reads."""
        contexts = [context for context, _, _ in self._ungranted]
        self._ungranted.clear()
        self._reached = {}
        self._confirmed = NO_ROUND
        return contexts
