"""A repeated heartbeat's short way says, byte for byte and in order, what the long one says (docs/adr/0012)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import Heartbeat, HeartbeatAnswer
from muster_coordinator.limits import CONNECTION_UNSENT_BYTES_MAX
from muster_coordinator.wire import limits
from muster_coordinator.wire.connection import Connection
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.wire.frames import frames_of
from tests.wire.kio_entities import decode_answer, encode_request
from tests.wire.test_connection import StillClock

BEATS = VERSIONS[Api.HEARTBEAT]


class Desk:
    """Answers every heartbeat with `code`, at once where it is asked to; other requests wait in `others`."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.code = Code.NONE
        self.unwilling = False
        """The short way is asked and says no."""
        self.short: list[tuple[Heartbeat, int]] = []
        self.long: list[Heartbeat] = []
        self.others: list[Exchange] = []
        self.wakes = 0
        how: dict[str, Callable[..., Any]] = {"heartbeat_at_once": self.heartbeat_at_once} if at_once else {}
        self.connection = Connection(
            listener="INSIDE", connection_id=1, client_host="/10.0.0.1", clock=StillClock(), handle=self.take,
            wake=self.wake, **how,  # type: ignore[arg-type]
        )  # fmt: skip

    def take(self, _context: RequestContext, request: Any, reply: Exchange) -> None:
        if isinstance(request, Heartbeat):
            self.long.append(request)
            reply(HeartbeatAnswer(self.code))
        else:
            self.others.append(reply)

    def heartbeat_at_once(self, request: Heartbeat, times: int) -> Code | None:
        if self.unwilling:
            return None
        self.short.append((request, times))
        return self.code

    def wake(self) -> None:
        self.wakes += 1

    def answers(self) -> list[bytes]:
        return list(frames_of(self.connection.take()))

    def answer_others(self) -> None:
        for reply in self.others:
            if reply.frame is None:
                reply({"groups": []})


def beat(correlation: int, *, version: int = 4, client_id: str | None = "cli", **values: Any) -> bytes:
    fields = {"group_id": "g", "generation_id": 5, "member_id": "m", **values}
    return encode_request(Api.HEARTBEAT, version, fields, correlation, client_id)


def question(correlation: int) -> bytes:
    return encode_request(Api.DESCRIBE_GROUPS, 0, {"groups": ()}, correlation, "cli")


@pytest.mark.parametrize("code", [Code.NONE, Code.REBALANCE_IN_PROGRESS])
@pytest.mark.parametrize("version", range(BEATS.min, BEATS.max + 1))
def test_the_answer_to_a_repetition_is_the_same_but_for_the_correlation_id(version: int, code: Code) -> None:
    desk = Desk()
    desk.code = code
    desk.connection.receive(beat(7, version=version))
    desk.connection.receive(beat(8, version=version))
    first, second = desk.answers()
    assert (len(desk.long), len(desk.short)) == (1, 1)
    assert first[:4] + first[8:] == second[:4] + second[8:]
    assert [decode_answer(Api.HEARTBEAT, version, frame)[0] for frame in (first, second)] == [7, 8]
    assert int(decode_answer(Api.HEARTBEAT, version, second)[1].error_code.value) == code


def test_repetitions_in_one_read_are_judged_once_and_counted_each() -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(beat, range(33))))
    assert [times for _, times in desk.short] == [32]
    assert desk.short[0][0] == desk.long[0] == Heartbeat("g", 5, "m", None)
    assert desk.connection.requests == 33
    assert [int.from_bytes(frame[4:8], "big") for frame in desk.answers()] == list(range(33))


@pytest.mark.parametrize(
    "changed",
    [{"generation_id": 6}, {"member_id": "n"}, {"group_id": "h"}, {"client_id": "clj"}, {"version": 3}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_heartbeat_that_differs_goes_the_long_way_and_is_the_one_to_repeat_then(changed: dict[str, Any]) -> None:
    desk = Desk()
    for correlation, how in enumerate(({}, changed, changed, {})):
        desk.connection.receive(beat(correlation, **how))
    assert (len(desk.long), len(desk.short)) == (3, 1)
    assert desk.short[0][0] == desk.long[1]


def test_a_repetition_behind_another_request_waits_its_turn() -> None:
    desk = Desk()
    desk.connection.receive(beat(1) + question(2) + beat(3))
    assert desk.short == []
    assert [int.from_bytes(frame[4:8], "big") for frame in desk.answers()] == [1]
    desk.answer_others()
    assert [int.from_bytes(frame[4:8], "big") for frame in desk.answers()] == [2, 3]
    desk.connection.receive(beat(4))
    assert [int.from_bytes(frame[4:8], "big") for frame in desk.answers()] == [4]
    assert len(desk.short) == 1


def test_what_is_not_answered_at_once_goes_the_long_way_and_counts_once() -> None:
    desk = Desk()
    desk.connection.receive(beat(1))
    desk.unwilling = True
    desk.code = Code.UNKNOWN_MEMBER_ID
    desk.connection.receive(beat(2))
    assert len(desk.long) == desk.connection.requests == 2
    assert int(decode_answer(Api.HEARTBEAT, 4, desk.answers()[1])[1].error_code.value) == Code.UNKNOWN_MEMBER_ID


def test_a_heartbeat_over_the_limit_is_not_remembered() -> None:
    around = len(beat(0, member_id=""))
    for spare, short in ((1, 1), (-1, 0)):
        desk = Desk()
        member = "m" * (limits.REPEATED_HEARTBEAT_BYTES_MAX - around - spare)  # its length takes a second byte
        desk.connection.receive(beat(1, member_id=member))
        desk.connection.receive(beat(2, member_id=member))
        assert (len(desk.short), len(desk.answers())) == (short, 2)


def test_one_read_gets_no_more_than_its_turn() -> None:
    desk = Desk()
    desk.connection.receive(b"".join(map(beat, range(limits.CONNECTION_TURN_REQUESTS_MAX + 40))))
    assert desk.connection.requests == limits.CONNECTION_TURN_REQUESTS_MAX
    wakes = desk.wakes
    assert wakes, "the driver is told to come back"
    desk.connection.resume()
    assert desk.connection.requests == limits.CONNECTION_TURN_REQUESTS_MAX + 40


def test_answers_that_nobody_takes_stop_the_reading() -> None:
    desk = Desk()
    desk.connection.receive(beat(0))
    desk.connection.note_unsent(CONNECTION_UNSENT_BYTES_MAX + 1)
    desk.connection.receive(beat(1))
    assert desk.connection.requests == 1
    desk.connection.note_unsent(0)
    desk.connection.resume()
    assert desk.connection.requests == 2
    assert desk.connection.unsent_bytes == desk.connection.ready_bytes == sum(map(len, desk.answers()))


FRAMES = st.lists(
    st.one_of(
        st.builds(lambda version, generation: ("beat", version, generation), st.integers(3, 4), st.integers(1, 2)),
        st.just(("question", 0, 0)),
        st.just(("answer", 0, 0)),
    ),
    max_size=60,
)


class Talk:
    """A driver in small: what it reads goes to the desk's connection, and `out` is all that it writes."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.out = b""
        self.at_once = 0

    def read(self, data: bytes) -> None:
        answers = self.desk.connection.answer_at_once(data)
        if answers is None:
            self.desk.connection.receive(data)
        else:
            self.at_once += 1
            self.out += answers

    def write(self) -> None:
        self.out += b"".join(self.desk.connection.take())
        self.desk.connection.note_unsent(0)

    def follow(self, script: list[tuple[str, int, int]], cuts: list[int]) -> None:
        """What waits is answered, and what is ready written, where the script says so."""
        held, cut = b"", iter(cuts)
        for correlation, (what, version, generation) in enumerate(script):
            if what == "answer":
                self.desk.answer_others()
                self.write()
            elif what == "question":
                held += question(correlation)
            else:
                held += beat(correlation, version=version, generation_id=generation)
            size = next(cut, len(held))
            self.read(held[:size])
            held = held[size:]
        self.read(held)
        self.desk.answer_others()
        self.write()


@given(FRAMES, st.lists(st.integers(0, 90), max_size=60))
@settings(max_examples=150, deadline=None)
def test_both_ways_give_the_same_bytes_whatever_comes_in_whatever_pieces(
    script: list[tuple[str, int, int]], cuts: list[int]
) -> None:
    short, long = Talk(Desk()), Talk(Desk(at_once=False))
    short.follow(script, cuts)
    long.follow(script, cuts)
    assert short.out == long.out
    assert short.desk.connection.requests == long.desk.connection.requests
    assert sum(times for _, times in short.desk.short) + len(short.desk.long) == len(long.desk.long)


def test_a_read_of_nothing_but_repetitions_is_answered_for_writing_now() -> None:
    talk = Talk(Desk())
    talk.read(beat(1))
    talk.read(beat(2))
    assert talk.at_once == 0, "the first answer is not written yet"
    talk.write()
    talk.read(beat(3) + beat(4))
    assert talk.at_once == 1
    assert [int.from_bytes(frame[4:8], "big") for frame in frames_of([talk.out])] == [1, 2, 3, 4]
    assert talk.desk.connection.requests == 4


@pytest.mark.parametrize(
    "read",
    [b"", beat(3)[:-1], beat(3) + beat(4)[:6], beat(3, generation_id=9), beat(3) + question(4), question(4)],
    ids=["nothing", "half", "one and a half", "another generation", "and a question", "a question"],
)
def test_anything_else_is_left_to_receive(read: bytes) -> None:
    talk = Talk(Desk())
    talk.read(beat(1))
    talk.write()
    assert talk.desk.connection.answer_at_once(read) is None
    assert (talk.desk.short, talk.desk.connection.requests) == ([], 1)


def test_nothing_is_answered_for_writing_now_while_something_is_half_read_or_in_line_or_once_it_failed() -> None:
    for before in (beat(2)[:5], question(2), b"\xff" * 8):
        talk = Talk(Desk())
        talk.read(beat(1))
        talk.write()
        talk.read(before)
        assert talk.desk.connection.answer_at_once(beat(3)) is None
