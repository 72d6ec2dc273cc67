"""What every event of a real part must be like, whoever hands it out."""

from muster_coordinator.events import KINDS, Event

WHERE = {"raft_group", "partition"}
"""Which group it is in: the host adds it, also where the kind does not say so."""


def check_event(event: Event) -> None:
    """It is one of the declared kinds, and has a value for each of its fields and for no other."""
    assert event.kind in KINDS
    assert event.fields.keys() - WHERE == set(event.kind.fields) - WHERE, event
    for name, value in event.fields.items():
        assert value is None or isinstance(value, str | int), (event.kind.name, name, value)
