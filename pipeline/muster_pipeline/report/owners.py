"""Who owns a partition at the end of the log: member, instance, client and host.

A classic group's owners are those of its last generation; of the others the last record that gives a partition to a
member counts, unless that member has left. A group that became one of KIP-848 is judged by its later records. What it
cannot tell: a partition that a KIP-848 member gave back and nobody has taken yet is still its, since a record with an
empty assignment leaves no row.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from muster_pipeline.report.source import Tables, rows

Place = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One member, as its last record tells it."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None

    @property
    def name(self) -> str:
        """Instance id, by which people know a static member (on Kubernetes its pod); else the member id."""
        return self.member_id if self.instance_id is None else self.instance_id


@dataclass(frozen=True, slots=True)
class _Member:
    """A member's last record."""

    owner: Owner
    is_classic: bool
    is_gone: bool


def owners(tables: Tables, groups: Container[str]) -> Mapping[Place, Owner]:
    """Of the partitions of these groups; one pass over `memberships`, one over `assignments`."""
    members: dict[tuple[str, str], _Member] = {}
    newest: dict[str, int] = {}
    columns = ("group_id", "group_kind", "log_offset", "stage", "member_id", "instance_id", "client_id", "client_host")
    for group, kind, at, stage, member, instance, client, host in rows(tables, "memberships", columns):
        if group not in groups or (kind == "classic" and stage != "completed"):
            continue
        owner = Owner(member_id=member, instance_id=instance, client_id=client, host=host)
        members[group, member] = _Member(owner, is_classic=kind == "classic", is_gone=stage == "left")
        if kind == "classic":
            newest[group] = max(newest.get(group, -1), at)
    for group, at, stage in rows(tables, "generations", ("group_id", "log_offset", "stage")):
        # An empty generation has no memberships, and no owners either.
        if group in groups and stage in ("empty", "deleted"):
            newest[group] = max(newest.get(group, -1), at)
    found: dict[Place, tuple[int, str]] = {}
    assigned = ("group_id", "log_offset", "kind", "member_id", "topic", "partition")
    for group, at, kind, member, topic, partition in rows(tables, "assignments", assigned):
        if group not in groups or kind not in ("assigned", "current") or topic is None:
            continue
        before = found.get((group, topic, partition))
        if before is None or at >= before[0]:
            found[group, topic, partition] = at, member
    return {
        place: members[place[0], member].owner
        for place, (at, member) in found.items()
        if (place[0], member) in members and _holds(members[place[0], member], newest.get(place[0]), at)
    }


def _holds(member: _Member, generation_at: int | None, at: int) -> bool:
    """A group may have become one of KIP-848, or a classic one again: the kind of the member's last record counts, and
    what was assigned before the other kind's end is over."""
    if member.is_classic:
        return at == generation_at
    return not member.is_gone and (generation_at is None or at > generation_at)
