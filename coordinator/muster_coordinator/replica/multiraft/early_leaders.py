"""What peers say of leaders before this replica may believe them.

Problem: a peer that has joined sends the table of leaders as soon as it trusts this replica; while the record here
does not name its folder yet, nothing of it counts, and the next table is sent `GOSSIP_FULL_MS` later. Until then this
replica cannot tell clients who leads what. Mechanism: of a peer that the record is about to name, the newest news of
each group is kept, and noted when it is trusted. A link that ends or begins anew forgets it: it may lead to another
folder then.
What it does not do: decide whom to trust, or keep anything else that such a peer says, which it repeats.
"""

from collections.abc import Iterable

from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import RAFT_GROUPS_MAX
from muster_coordinator.replica.multiraft.payloads import LeaderNews


class EarlyLeaders:
    """By peer, at most one entry a group and as many groups as a cluster may have."""

    def __init__(self) -> None:
        self._kept: dict[BrokerId, dict[GroupNo, LeaderNews]] = {}

    def keep(self, peer: BrokerId, news: Iterable[LeaderNews]) -> None:
        """It is not believed yet. Of groups beyond the bound nothing is kept: the next table has them."""
        kept = self._kept.setdefault(peer, {})
        for one in news:
            before = kept.get(one.group)
            if before is None and len(kept) >= RAFT_GROUPS_MAX:
                continue
            if before is None or one.term >= before.term:
                kept[one.group] = one

    def take(self, peer: BrokerId) -> list[LeaderNews]:
        """The peer is trusted from now on, or its link has ended: nothing is kept any more."""
        return list(self._kept.pop(peer, {}).values())
