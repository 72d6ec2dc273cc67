"""What a request leaves behind is freed at once: nothing of it waits for the garbage collector.

Objects that refer to each other in a circle are freed only by a collection, which stops the loop for a millisecond per
thousand objects. So no request may make a circle, whichever way it ends. In the compiled form (`make test-compiled`)
this finds more: there the variables of a call and a function within it refer to each other.
"""

import gc
import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import muster_coordinator.groups
import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.requests import (
    DeleteGroup,
    OffsetDelete,
    PartitionCommit,
    TopicCommit,
    TxnOffsetCommit,
    WriteMarker,
)
from muster_coordinator.records.control import EndMarker, TransactionMarker

from tests.groups.host import (
    NO_ID,
    Host,
    Member,
    beat,
    code_of,
    commit,
    delete,
    fetch,
    join,
    leave,
    settle,
    stable,
    sync,
)
from tests.made_settings import shard_config

Act = Callable[[Host], object]


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """Nothing is collected but by the test."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


def left_behind() -> Counter[str]:
    """What only a collection frees, by its type."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(type(one).__qualname__ for one in gc.garbage)
    gc.garbage.clear()
    return found


def _dropped(host: Host, request: object) -> int:
    """The batch of the request is not appended."""
    host.hold = True
    ticket = host.send(request)
    host.drop(Code.NOT_COORDINATOR)
    host.hold = False
    return ticket


def _time_passes(host: Host, ms: int) -> None:
    """Time passes until something is due of which a batch comes, and that is not appended."""
    host.hold = True
    host.advance(ms)
    host.drop(Code.NOT_COORDINATOR)
    host.hold = False


def _txn() -> TxnOffsetCommit:
    topics = (TopicCommit("t", NO_ID, (PartitionCommit(0, 2, -1, ""),)),)
    return TxnOffsetCommit("g", -1, "", None, topics, 7, 0, 0)


def _commits(host: Host) -> None:
    assert code_of(host.ask(commit())) == 0
    assert code_of(host.answers[_dropped(host, commit())]) != 0
    assert code_of(host.ask(commit("nobody", 1))) != 0
    fetch(host)


def _transactions(host: Host) -> None:
    for marker in (True, False):
        number = host.leader.begin_verification(7, 0)
        assert code_of(host.ask(_txn()._replace(verification=number))) == 0
        end = WriteMarker(TransactionMarker(7, 0, EndMarker(marker, 1), 0))
        assert code_of(host.answers[_dropped(host, end)]) != 0
        assert code_of(host.ask(end)) == 0
    number = host.leader.begin_verification(7, 0)
    assert code_of(host.answers[_dropped(host, _txn()._replace(verification=number))]) != 0


def _members(host: Host) -> None:
    one, two = stable(host, 2)
    assert one.beat() == 0
    assert code_of(host.ask(commit(one.id, one.generation))) == 0
    three = Member(host).join()
    one.join()
    two.join()
    settle(host, [one, two, three])
    host.ask(leave(three.id))
    one.join(data=b"other-")
    two.join()
    settle(host, [one, two])
    host.ask(leave(one.id, two.id))


def _members_whose_records_are_dropped(host: Host) -> None:
    one, two = stable(host, 2)
    _dropped(host, leave(two.id))
    _dropped(host, join())
    _dropped(host, join(group="new"))
    _time_passes(host, 70_000)  # Both sessions end.
    host.advance(limits.APPEND_RETRY_MS + 70_000)
    host.ask(beat(one.id))


def _static_members(host: Host) -> None:
    one = stable(host, 1, instance="i")[0]
    assert code_of(host.answers[_dropped(host, join(instance="i"))]) != 0
    again = Member(host, instance="i").join().took()
    assert again.id != one.id
    other = Member(host, instance="i").join(data=b"other-")
    settle(host, [other])
    settle(host, [other.join(names=("sticky", "range"))])
    host.ask(join(instance="i", names=("range", "sticky")))  # Another vote: the generation ends.
    host.advance(300_000)


def _late_members(host: Host) -> None:
    """A member that does not rejoin in time, and one that sends no SyncGroup."""
    stable(host, 2)
    three = Member(host, session=300_000).join()
    host.advance(60_000)
    three.took()
    _time_passes(host, 60_000)
    host.advance(60_000)


def _lost_generations(host: Host) -> None:
    """The candidate, then the plan, then the rebalance that this asks for is not appended."""
    host.ask(commit())
    host.hold = True
    Member(host).join()
    host.tick()
    host.drop(Code.NOT_COORDINATOR)
    host.hold = False
    one = Member(host).join()
    host.tick()
    one.took()
    _dropped(host, sync(one.id, one.generation, plan=((one.id, b"plan"),)))
    _time_passes(host, 2 * limits.APPEND_RETRY_MS)
    host.advance(300_000)


def _nobody_rejoins(host: Host) -> None:
    """A generation ends with nobody."""
    one, two = stable(host, 2, session=300_000, rebalance=10_000)
    host.ask(leave(two.id))
    _time_passes(host, 11_000)
    host.advance(400_000)
    host.ask(beat(one.id))


def _only_an_absent_static_member_is_left(host: Host) -> None:
    how = {"session": 300_000, "rebalance": 10_000}
    one = stable(host, 1, instance="i", **how)[0]
    two = Member(host, **how).join()
    settle(host, [one.join(), two])
    three = Member(host, **how).join()
    settle(host, [one.join(), two.join(), three])
    host.ask(leave(three.id))
    host.advance(700_000)


def _full_group(host: Host) -> None:
    stable(host, 2)
    assert code_of(host.ask(join())) == Code.GROUP_MAX_SIZE_REACHED
    assert code_of(host.ask(join(known=True))) == Code.GROUP_MAX_SIZE_REACHED


def _deletions(host: Host) -> None:
    for offset in (1, 2):
        host.ask(commit(offset=offset, partition=offset))
    delete_one = OffsetDelete("g", (("t", (1,)),))
    _dropped(host, delete_one)
    host.ask(delete_one)
    _dropped(host, DeleteGroup("g"))
    assert delete(host) == 0


def _expiry(host: Host) -> None:
    host.ask(commit(retention=1_000))
    _time_passes(host, 2 * host.config.offsets_retention_ms)
    host.advance(2 * host.config.offsets_retention_ms)
    assert fetch(host).offset == -1


ACTS: dict[str, Act] = {
    "commits": _commits,
    "transactions": _transactions,
    "members": _members,
    "members whose records are dropped": _members_whose_records_are_dropped,
    "static members": _static_members,
    "late members": _late_members,
    "lost generations": _lost_generations,
    "nobody rejoins": _nobody_rejoins,
    "only an absent static member is left": _only_an_absent_static_member_is_left,
    "a full group": _full_group,
    "deletions": _deletions,
    "expiry": _expiry,
}


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_nothing_waits_for_the_garbage_collector(act: Act) -> None:
    host = _host(act)
    left_behind()
    act(host)
    assert not left_behind()


def _host(act: Act) -> Host:
    return Host(shard_config(initial_rebalance_delay_ms=0, group_max_size=2 if act is _full_group else 1_000))


def _called_later() -> Iterator[FunctionType]:
    """Each function or method of the groups of which a `partial` is made."""
    package = Path(muster_coordinator.groups.__path__[0])
    for path in sorted(package.rglob("*.py")):
        names = re.findall(r"partial\((?:self\.)?(\w+)", path.read_text())
        module = importlib.import_module(
            ".".join((package.parent.name, *path.relative_to(package.parent).with_suffix("").parts))
        )
        places = [vars(module), *(vars(one) for one in vars(module).values() if isinstance(one, type))]
        for name in names:
            found = next(place[name] for place in places if name in place)
            if isinstance(found, FunctionType):  # Not those of the compiled form, which have no code to see called.
                yield found


def test_each_end_of_each_record_is_among_them() -> None:
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        for act in ACTS.values():
            act(_host(act))
    finally:
        sys.setprofile(None)
    assert not [one.__qualname__ for one in _called_later() if one.__code__ not in called]


@pytest.mark.usefixtures("_no_collector")
def test_a_circle_would_be_seen() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert not left_behind()
    del circle
    assert left_behind() == {"list": 1}
