"""`muster produce --transactional-id`: what is committed, aborted and unknown, whatever ends the run.

That clusters do it, beside Kafka's own consumer, is in `integration/test_hanging_transactions`.
"""

from typing import Any, ClassVar

import kafka
import pytest
from muster_coordinator.cli import kafka_client
from muster_coordinator.cli.exits import Exit

TOPIC = [{"name": "t", "error_code": 0, "partitions": [], "is_internal": False}]
LINES = "".join(f"v{number}\n" for number in range(7))


class Result:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def wait(self, timeout_ms: int | None = None) -> bool:
        assert timeout_ms == 15_000, "no wait is without a bound"
        if isinstance(self.answer, BaseException):
            raise self.answer
        return bool(self.answer)


class Future:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def add_callback(self, call: Any) -> None:
        if self.error is None:
            call(None)

    def add_errback(self, call: Any) -> None:
        if self.error is not None:
            call(self.error)


class Producer:
    """kafka-python's, with the coordinator's answers to come."""

    DEFAULT_CONFIG = kafka.KafkaProducer.DEFAULT_CONFIG
    made: ClassVar[list["Producer"]] = []
    answers: ClassVar[dict[str, Any]] = {}
    fails_at: ClassVar[tuple[int, BaseException] | None] = None

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.calls: list[str] = []
        self._transaction_manager = self._sender = self
        Producer.made.append(self)

    def _call(self, name: str) -> Any:
        self.calls.append(name)
        return Producer.answers.get(name, True)

    def init_transactions(self) -> None:
        answer = self._call("init")
        if isinstance(answer, BaseException):
            raise answer

    def begin_transaction(self) -> None:
        self._call("begin")

    def begin_commit(self) -> Result:
        return Result(self._call("commit"))

    def begin_abort(self) -> Result:
        return Result(self._call("abort"))

    def wakeup(self) -> None:
        """It does all at once."""

    def send(self, topic: str, *, value: bytes, **_: Any) -> Future:
        self.calls.append(value.decode())
        error = None
        if Producer.fails_at is not None and value == f"v{Producer.fails_at[0]}".encode():
            error = Producer.fails_at[1]
            if not isinstance(error, Exception):
                raise error
        return Future(error)

    def close(self, timeout: float | None = None) -> None:
        self.calls.append("close at once" if timeout == 0 else "close")


class Admin:
    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return TOPIC

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def produce(muster: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda side, deadline: Admin())
    monkeypatch.setattr(kafka, "KafkaProducer", Producer)
    monkeypatch.setattr(Producer, "made", [])
    monkeypatch.setattr(Producer, "answers", {})
    monkeypatch.setattr(Producer, "fails_at", None)
    return lambda *words, stdin=LINES: muster("produce", "t", "--transactional-id", "me", *words, stdin=stdin)


def calls() -> list[str]:
    (one,) = Producer.made
    return one.calls


def test_all_records_are_one_transaction(produce: Any) -> None:
    ran = produce()
    assert ran.code == Exit.OK, ran.err
    assert calls() == ["init", "begin", *(f"v{number}" for number in range(7)), "commit", "close"]
    assert ran.err == "muster: 7 records committed in t, in 1 transactions\n"
    settings = Producer.made[0].settings
    assert (settings["transactional_id"], settings["max_block_ms"], settings["acks"]) == ("me", 15_000, "all")


def test_full_ones_are_committed_on_the_way_and_no_empty_one_is_begun(produce: Any) -> None:
    ran = produce("--transaction-records", "3")
    first, second = ["begin", "v0", "v1", "v2", "commit"], ["begin", "v3", "v4", "v5", "commit"]
    assert calls() == ["init", *first, *second, "begin", "v6", "commit", "close"]
    assert "7 records committed in t, in 3 transactions" in ran.err
    Producer.made.clear()
    assert produce("--transaction-records", "7").code == Exit.OK
    assert calls()[-2:] == ["commit", "close"]
    Producer.made.clear()
    assert produce(stdin="").code == Exit.OK
    assert calls() == ["init", "close"]


def test_an_interrupted_one_is_aborted(produce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "fails_at", (4, KeyboardInterrupt()))
    ran = produce("--transaction-records", "3")
    assert (ran.code, calls()[-3:]) == (Exit.INTERRUPTED, ["v4", "abort", "close"])
    assert "the open transaction of 1 records is aborted" in ran.err
    assert "stopped: 3 records committed in t, in 1 transactions" in ran.err


def test_one_with_a_record_that_failed_is_aborted(produce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "fails_at", (4, kafka.errors.MessageSizeTooLargeError()))
    ran = produce()
    assert (ran.code, calls()[-3:]) == (Exit.REFUSED, ["v4", "abort", "close"]), ran.err
    assert "the last transaction is not committed" in ran.err


@pytest.mark.parametrize("answer", [False, kafka.errors.ProducerFencedError(), kafka.errors.RequestTimedOutError()])
def test_a_commit_without_a_good_answer_is_unknown_and_not_followed_by_an_abort(
    produce: Any, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """Not even one that is refused: it may be the second question, and the first one was granted."""
    monkeypatch.setattr(Producer, "answers", {"commit": answer})
    ran = produce()
    assert (ran.code, calls()[-2:]) == (Exit.UNREACHABLE, ["commit", "close at once"])
    assert "whether the last 7 records are committed is unknown" in ran.err
    assert "stopped: 0 records committed" in ran.err


@pytest.mark.parametrize("answer", [False, kafka.errors.ProducerFencedError()])
def test_an_abort_without_a_good_answer_is_left_to_the_coordinator(
    produce: Any, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(Producer, "fails_at", (4, KeyboardInterrupt()))
    monkeypatch.setattr(Producer, "answers", {"abort": answer})
    ran = produce()
    assert (ran.code, calls()[-1]) == (Exit.INTERRUPTED, "close at once")
    assert "its coordinator does that at its time-out" in ran.err


def test_who_cannot_begin_says_so(produce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Producer, "answers", {"init": kafka.errors.TransactionalIdAuthorizationFailedError()})
    ran = produce()
    assert (ran.code, calls()) == (Exit.REFUSED, ["init", "close at once"])
    assert "cannot begin transactions" in ran.err


def test_a_size_is_of_transactions_only(muster: Any) -> None:
    assert muster("produce", "t", "--transaction-records", "3").code == Exit.USAGE
