"""Sticky assignment where all members have the same subscription: first as even, then with as few moves as possible.

With P partitions and C members every member gets floor(P/C), the quota, and P mod C of them get one more. In order:

1. Members keep what they owned up to the quota; P mod C members may keep one more. With racks, a partition without a
   replica in the owner's rack is not kept.
2. With racks: unassigned partitions go to members with a replica in their rack, within the quotas.
3. The rest is dealt round-robin, in order of member id, to the members below the quota, then one each to members at it.

It also tells which partitions change owner, which the cooperative assignor needs. O(P log P + C log C) without racks.
"""

from collections import deque
from collections.abc import Sequence

from muster_coordinator.groups.assignors.sticky_input import Key, StickyInput


class EqualAssignment:
    """Runs the steps above once. `assigned` by member; `moving`: partition → new owner, where the owner changes."""

    __slots__ = (
        "_above",
        "_above_max",
        "_at_quota",
        "_below_quota",
        "_given_up",
        "_problem",
        "_quota",
        "assigned",
        "moving",
    )

    def __init__(self, problem: StickyInput) -> None:
        self._problem = problem
        members = len(problem.member_ids)
        self._quota, self._above_max = divmod(sum(problem.partition_counts), members)
        self._above = 0
        """Members that hold one more than the quota; at most `_above_max`."""
        self._below_quota: list[int] = []
        self._at_quota: deque[int] = deque()
        """Members at the quota that may still get one more; empty once `_above` is at its maximum."""
        self._given_up: dict[Key, int] = {}
        """Partition → the member that owned it and did not keep it in step 1."""
        self.assigned: list[list[Key]] = [[] for _ in range(members)]
        self.moving: dict[Key, int] = {}
        for member in problem.order:
            self._keep_owned(member)
        self._below_quota.sort()
        self._at_quota = deque(sorted(self._at_quota))
        unassigned = problem.racks.fewest_nearby_first(self._unassigned())
        if problem.racks.usable:
            unassigned = self._deal_near(unassigned)
        self._deal(unassigned)
        # No member is left below the quota.
        assert all(len(self.assigned[member]) == self._quota for member in self._below_quota)

    def _keep_owned(self, member: int) -> None:
        racks = self._problem.racks
        keep = []
        for key in sorted(self._problem.owned[member], key=lambda key: (key.partition, key.topic)):
            if racks.mismatch(member, key):
                self._given_up[key] = member
            elif key not in self._problem.contested:
                keep.append(key)
        kept = min(len(keep), self._quota)
        if len(keep) < self._quota:
            self._below_quota.append(member)
        elif self._above < self._above_max:
            if len(keep) > self._quota:
                kept += 1
                self._one_more_above()
            else:
                self._at_quota.append(member)
        self.assigned[member] = keep[:kept]
        for key in keep[kept:]:
            self._given_up[key] = member

    def _one_more_above(self) -> None:
        self._above += 1
        if self._above == self._above_max:
            self._at_quota.clear()

    def _unassigned(self) -> list[Key]:
        taken = {key for keys in self.assigned for key in keys}
        every = self._problem.all_partitions(range(len(self._problem.topics)))
        return [key for key in every if key not in taken]

    def _deal_near(self, unassigned: Sequence[Key]) -> list[Key]:
        """Step 2; returns the partitions that fit no member."""
        racks, turn, left = self._problem.racks, 0, []
        for key in unassigned:
            index = racks.next_near(key, self._below_quota, turn)
            if index >= 0:
                member = self._below_quota[index]
                self._give(key, member)
                if len(self.assigned[member]) >= self._quota:
                    del self._below_quota[index]
                    if self._above < self._above_max:
                        self._at_quota.append(member)
                else:
                    index += 1
                turn = index % len(self._below_quota) if self._below_quota else 0
                continue
            index = racks.next_near(key, self._at_quota, 0)
            if index < 0:
                left.append(key)
                continue
            member = self._at_quota[index]
            self._give(key, member)
            del self._at_quota[index]
            self._one_more_above()
        return left

    def _deal(self, unassigned: Sequence[Key]) -> None:
        """Step 3: round-robin to the members below the quota, then one each to members at it."""
        turn = 0
        for key in unassigned:
            if not self._below_quota:
                member = self._at_quota.popleft()
                self._give(key, member)
                self._above += 1
                continue
            turn = turn if turn < len(self._below_quota) else 0
            member = self._below_quota[turn]
            self._give(key, member)
            if len(self.assigned[member]) == self._quota:
                del self._below_quota[turn]
                self._at_quota.append(member)
            else:
                turn += 1

    def _give(self, key: Key, member: int) -> None:
        self.assigned[member].append(key)
        # The owner changes if another member owned the partition, or if several members claimed it.
        if self._given_up.get(key, member) != member or key in self._problem.contested:
            self.moving[key] = member
