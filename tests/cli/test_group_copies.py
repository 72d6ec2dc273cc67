"""Many groups are read whichever of them fails, and a commit is repeated only where nothing can have been done."""

from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import kafka.errors as errors
import pytest
from kafka.protocol.consumer import OffsetFetchRequest
from muster_coordinator.cli import group_copies, kafka_client
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.group_copies import ListedGroup, ask_each, commit_copies, read_groups
from muster_coordinator.cli.kafka_client import KafkaSide
from muster_coordinator.cli.migrate_plan import Answered, Committed, GroupAt
from muster_coordinator.groups.assignors.membership import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
COPIES = {P: Committed(3, "m", 4), Q: Committed(5)}
NAMES = [f"g-{number}" for number in range(50)]


@pytest.fixture
def admin() -> SimpleNamespace:
    it = SimpleNamespace(closed=0)

    def close() -> None:
        it.closed += 1

    it.close = close
    return it


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch, admin: SimpleNamespace) -> KafkaSide:
    """Each look at the clock is a second later; its time is 15 s."""

    def client(self: KafkaSide, deadline: float) -> SimpleNamespace:
        self._admin = admin
        return admin

    monkeypatch.setattr(kafka_client.KafkaSide, "_client", client)
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda pause_s: None)
    monkeypatch.setattr(group_copies, "time", clock)
    return KafkaSide("b:1")


class Asked:
    """A question that fails for groups as `fails` says; it keeps what it was asked."""

    def __init__(self, fails: Callable[[str, int], Exception | None]) -> None:
        self.asked: list[list[str]] = []
        self._fails = fails

    def __call__(self, names: Sequence[str], admin: Any) -> dict[str, str]:
        self.asked.append(list(names))
        for name in names:
            error = self._fails(name, len(self.asked))
            if error is not None:
                raise error
        return {name: name.upper() for name in names}


def test_groups_that_can_be_read_are_one_question(side: KafkaSide) -> None:
    question = Asked(lambda name, nth: None)
    assert ask_each(side, NAMES, question) == {name: name.upper() for name in NAMES}
    assert question.asked == [NAMES]
    assert ask_each(side, [], question) == {}


@pytest.mark.parametrize("denied", [{"g-0"}, {"g-49"}, {"g-7", "g-8", "g-31"}])
def test_who_may_not_be_read_hides_no_other(side: KafkaSide, denied: set[str]) -> None:
    question = Asked(lambda name, nth: errors.GroupAuthorizationFailedError() if name in denied else None)
    found = ask_each(side, NAMES, question)
    assert {name for name, one in found.items() if isinstance(one, CliError)} == denied
    assert {one.code for one in found.values() if isinstance(one, CliError)} == {Exit.REFUSED}
    assert found.keys() == set(NAMES)
    assert len(question.asked) <= 1 + 2 * 6 * len(denied), "halves, and halves of halves"


def test_a_coordinator_that_is_not_available_for_a_while_is_asked_again(side: KafkaSide) -> None:
    def fails(name: str, nth: int) -> Exception | None:
        return errors.CoordinatorNotAvailableError() if name == "g-3" and nth < 9 else None

    assert ask_each(side, NAMES[:4], Asked(fails)) == {name: name.upper() for name in NAMES[:4]}


def test_one_that_stays_away_ends_with_the_time_and_hides_no_other(side: KafkaSide) -> None:
    question = Asked(lambda name, nth: errors.CoordinatorNotAvailableError() if name == "g-3" else None)
    found = ask_each(side, NAMES, question)
    (away,) = [name for name, one in found.items() if isinstance(one, CliError)]
    assert (away, found[away].code, len(found)) == ("g-3", Exit.UNREACHABLE, 50)
    assert "no usable answer from b:1 within 15 s" in str(found[away])


def test_a_lost_connection_is_nobodys_fault_and_the_whole_question_is_repeated(side: KafkaSide) -> None:
    question = Asked(lambda name, nth: errors.KafkaConnectionError("closed") if nth == 1 else None)
    assert ask_each(side, NAMES, question) == {name: name.upper() for name in NAMES}
    assert question.asked == [NAMES, NAMES]


def test_a_side_that_is_away_is_told_of_each_group(side: KafkaSide) -> None:
    found = ask_each(side, NAMES, Asked(lambda name, nth: errors.KafkaConnectionError("closed")))
    assert found.keys() == set(NAMES)
    assert {one.code for one in found.values() if isinstance(one, CliError)} == {Exit.UNREACHABLE}


def test_a_group_of_which_the_answer_says_nothing_is_not_told_as_empty(side: KafkaSide) -> None:
    found = ask_each(side, ["a", "b"], lambda names, admin: {"a": 1})
    assert found["a"] == 1
    assert isinstance(found["b"], CliError)
    assert found["b"].code is Exit.UNREACHABLE


class Target:
    """A coordinator whose answers are given: an exception, or the error of each partition in turn."""

    def __init__(self, *answers: Exception | dict[TopicPartition, type[Exception]]) -> None:
        self._answers = iter(answers)
        self.sent: list[dict[TopicPartition, tuple[int, str, int]]] = []

    def alter_group_offsets(self, group: str, offsets: dict[Any, Any]) -> dict[Any, Any]:
        self.sent.append(
            {TopicPartition(*one): (at.offset, at.metadata, at.leader_epoch) for one, at in offsets.items()}
        )
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


@pytest.fixture
def committing(side: KafkaSide, admin: SimpleNamespace) -> Callable[[Target], Answered]:
    def commit(target: Target) -> Answered:
        admin.alter_group_offsets = target.alter_group_offsets
        return commit_copies(side, "g", COPIES)

    return commit


GOOD = {P: errors.NoError, Q: errors.NoError}
ALL = {P: (3, "m", 4), Q: (5, "", -1)}


def test_offset_metadata_and_epoch_are_sent_once(committing: Any) -> None:
    target = Target(GOOD)
    assert committing(target) == Answered({}, "")
    assert target.sent == [ALL]


def test_what_was_answered_as_not_done_is_sent_again_and_only_that(committing: Any, admin: SimpleNamespace) -> None:
    """By a new client: an old one would go to the coordinator that it knows, for ever."""
    target = Target({P: errors.NoError, Q: errors.NotCoordinatorError}, {Q: errors.NoError})
    assert committing(target) == Answered({}, "")
    assert (target.sent, admin.closed) == ([ALL, {Q: ALL[Q]}], 1)


def test_what_is_refused_is_told_and_not_sent_again(committing: Any) -> None:
    target = Target({P: errors.NoError, Q: errors.UnknownTopicOrPartitionError})
    answered = committing(target)
    assert (list(answered.refused), answered.unsure, len(target.sent)) == ([Q], "", 1)


@pytest.mark.parametrize("error", [errors.CoordinatorNotAvailableError(), errors.KafkaConnectionError("ECONNREFUSED")])
def test_what_was_not_sent_is_tried_again(committing: Any, error: Exception) -> None:
    """The coordinator is not known, or nobody listens there."""
    target = Target(error, error, GOOD)
    assert committing(target) == Answered({}, "")
    assert len(target.sent) == 3


@pytest.mark.parametrize(
    "error", [errors.KafkaTimeoutError(), errors.RequestTimedOutError("7"), errors.KafkaConnectionError("closed")]
)
def test_a_commit_without_an_answer_is_not_sent_again_and_not_told_as_refused(
    committing: Any, error: Exception
) -> None:
    target = Target(error)
    answered = committing(target)
    assert (answered.refused, bool(answered.unsure), len(target.sent)) == ({}, True, 1)


def test_who_may_not_commit_is_told_of_each_offset(committing: Any) -> None:
    answered = committing(Target(errors.GroupAuthorizationFailedError()))
    assert (answered.refused.keys(), answered.unsure) == (COPIES.keys(), "")


def test_a_coordinator_that_stays_away_ends_with_the_time_and_is_unknown(committing: Any) -> None:
    """Kafka answers 15 also where a record was appended, and not replicated in time."""
    target = Target(*[{P: errors.CoordinatorNotAvailableError, Q: errors.NoError}] * 30)
    answered = committing(target)
    assert (answered.refused, bool(answered.unsure)) == ({}, True)
    assert len(target.sent) < 30


class Broker:
    """Answers DescribeGroups and OffsetFetch for kafka-python's connection manager. `version`: its OffsetFetch."""

    def __init__(self, version: int, partition_error: int = 0) -> None:
        self.cluster = SimpleNamespace()
        self.broker_version_data = SimpleNamespace(api_version=lambda api: version)
        self.fetched: list[Any] = []
        self._error = partition_error

    def run(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        return ask(*arguments)

    def send(self, request: Any, node_id: int) -> Any:
        if isinstance(request, OffsetFetchRequest):
            self.fetched.append(request)
            return self._offsets(request)
        states = {"live": ("Stable", ["a"], 0), "gone": ("Dead", [], 69)}
        groups = [(name, *states.get(name, ("Empty", [], 0))) for name in request.groups]
        return SimpleNamespace(
            groups=[
                SimpleNamespace(group_id=name, group_state=state, members=members, error_code=code)
                for name, state, members, code in groups
            ]
        )

    def _offsets(self, request: Any) -> Any:
        part = SimpleNamespace(
            partition_index=0, committed_offset=3, metadata=None, committed_leader_epoch=-1, error_code=self._error
        )
        none = SimpleNamespace(
            partition_index=1, committed_offset=-1, metadata="", committed_leader_epoch=-1, error_code=0
        )
        topics = [SimpleNamespace(name="t", partitions=[part, none])]
        groups = [SimpleNamespace(group_id=one.group_id, topics=topics, error_code=0) for one in request.groups or ()]
        return SimpleNamespace(topics=topics, error_code=0, groups=groups)


def of_broker(admin: SimpleNamespace, broker: Broker) -> None:
    admin._manager = broker
    admin._find_coordinator_ids = lambda names: dict.fromkeys(names, 1)


@pytest.mark.parametrize(("version", "questions"), [(5, 4), (7, 4), (8, 1), (10, 1)])
def test_groups_are_read_from_brokers_of_any_age(
    side: KafkaSide, admin: SimpleNamespace, version: int, questions: int
) -> None:
    """From 8 on one question is about many groups; a pending offset of a transaction is asked for from 7 on."""
    broker = Broker(version)
    of_broker(admin, broker)
    listed = {"live": ListedGroup("classic", "Stable"), "new": ListedGroup("consumer", "Assigning")}
    read = read_groups(side, ["live", "gone", "new", "unlisted"], listed)
    offsets = {P: Committed(3, "", -1)}
    assert read == {
        "live": GroupAt("Stable", 1, "classic", offsets),
        "gone": GroupAt("Dead", 0, "", offsets),
        "new": GroupAt("Assigning", 0, "consumer", offsets),
        "unlisted": GroupAt("Empty", 0, "", offsets),
    }
    assert len(broker.fetched) == questions
    assert all(one.require_stable is (version >= 7) for one in broker.fetched)


def test_while_a_transaction_decides_an_offset_the_group_cannot_be_read(
    side: KafkaSide, admin: SimpleNamespace
) -> None:
    of_broker(admin, Broker(8, partition_error=88))
    (found,) = read_groups(side, ["g"], {}).values()
    assert isinstance(found, CliError)
    assert found.code is Exit.UNREACHABLE
