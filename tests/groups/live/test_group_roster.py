"""The roster's sums: whenever they are first asked for, they are those of the members that are there."""

from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.groups.live.roster import Roster
from muster_coordinator.groups.requests import Protocol
from muster_coordinator.groups.state.member import Member

NAMES = ["range", "sticky", "own"]
MEMBERS = st.builds(
    Member,
    id=st.sampled_from(["a", "b", "c", "d"]),
    instance=st.sampled_from([None, "i1", "i2"]),
    client_id=st.sampled_from(["c", "client-ä"]),
    client_host=st.just("/h"),
    rebalance_timeout_ms=st.sampled_from([1_000, 2_000]),
    session_timeout_ms=st.just(6_000),
    protocols=st.lists(st.builds(Protocol, st.sampled_from(NAMES), st.binary(max_size=3)), min_size=1, max_size=3).map(
        tuple
    ),
    assignment=st.sampled_from([b"", b"x"]),
)
STEPS = st.lists(st.one_of(MEMBERS, st.sampled_from(["a", "b", "c", "d", "ask"])), max_size=30)


def sums(roster: Roster) -> tuple[int, list[bool], int]:
    return (
        roster.stored_bytes,
        [roster.supports("consumer", (Protocol(name, b""),)) for name in NAMES],
        roster.max_rebalance_timeout_ms(),
    )


@given(st.lists(MEMBERS, max_size=4), STEPS)
def test_sums_follow_the_members_however_early_they_are_asked_for(
    first: list[Member], steps: list[Member | str]
) -> None:
    """A member is put; `ask` asks in between; other names are removed."""
    roster = Roster("consumer", first)
    for step in steps:
        if isinstance(step, Member):
            roster.put(step)
        elif step == "ask":
            assert sums(roster) == sums(Roster("consumer", roster.members.values()))
        else:
            roster.remove(step)
    assert sums(roster) == sums(Roster("consumer", roster.members.values()))
    held = {m.instance for m in roster.members.values()} - {None}
    assert set(roster.instances) <= held
    for instance, member in roster.instances.items():
        assert roster.members[member].instance == instance
