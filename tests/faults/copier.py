"""A process that consumes, transforms and produces with its offsets inside the transaction, until it is killed.

    python -m tests.faults.copier '{"bootstrap": …, "name": …, "group": …, "input": …, "outputs": …, "partitions": …}'

Each record `n` of input partition `p` becomes `p:n` in output partition `n % partitions`. A third of the transactions
are aborted, drawn by chance, and done again from the committed offsets. Errors are met as librdkafka's documentation
says: again, abort, or end (exit 3) when the producer is fenced; who watches starts a new one then.
"""

import json
import sys
import threading
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

ABORTED_SHARE = 0.3
BATCH_MAX = 20
CALL_S_MAX = 30
FENCED = 3
PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
)
"""What a consumer is told of a coordinator that has just died, and does not mark as retriable."""


class Copier:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._rand = Random()
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings["bootstrap"],
                "group.id": settings["group"],
                "group.instance.id": settings["name"],
                "session.timeout.ms": 30_000,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                "log_level": 0,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": settings["bootstrap"],
                "transactional.id": settings["name"],
                "transaction.timeout.ms": 20_000,
                "linger.ms": 0,
                # Its default forgets every broker when the only one it has a connection to dies; librdkafka 2.12 to
                # 2.16 ask for ever for the group coordinator they forgot (issue 5511), whoever the brokers are.
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def run(self, ended: threading.Event) -> None:
        self._again(lambda: self._producer.init_transactions(CALL_S_MAX))
        self._consumer.subscribe([self._settings["input"]])
        while not ended.is_set():
            messages = [one for one in self._consumer.consume(BATCH_MAX, timeout=0.2) if one.error() is None]
            if messages:
                self._transaction(messages)
        self._consumer.close()

    def _transaction(self, messages: list[Any]) -> None:
        producer = self._producer
        try:
            producer.begin_transaction()
            for message in messages:
                number = message.value().decode()
                producer.produce(
                    self._settings["outputs"],
                    f"{message.partition()}:{number}",
                    partition=int(number) % self._settings["partitions"],
                )
            positions = [one for one in self._consumer.position(self._consumer.assignment()) if one.offset >= 0]
            metadata = self._consumer.consumer_group_metadata()
            self._again(lambda: producer.send_offsets_to_transaction(positions, metadata, CALL_S_MAX))
            if self._rand.random() < ABORTED_SHARE:
                producer.flush(CALL_S_MAX)
                self._abort()
                print("aborted", flush=True)
            else:
                self._again(lambda: producer.commit_transaction(CALL_S_MAX))
                print("committed", flush=True)
        except KafkaException as error:
            why: KafkaError = error.args[0]
            print(f"error {why.name()} {why.str()}", flush=True)
            if not why.txn_requires_abort():
                raise
            self._abort()

    def _abort(self) -> None:
        self._again(lambda: self._producer.abort_transaction(CALL_S_MAX))
        owned = self._consumer.assignment()
        for one in self._again(lambda: self._consumer.committed(owned, timeout=CALL_S_MAX)):
            one.offset = max(one.offset, 0)
            self._consumer.seek(one)

    @staticmethod
    def _again(call: Any) -> None:
        while True:
            try:
                return call()
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() not in PASSING:
                    raise


def main() -> None:
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        Copier(json.loads(sys.argv[1])).run(ended)
    except KafkaException as error:
        print(f"ended {error.args[0].name()} {error.args[0].str()}", flush=True)
        sys.exit(FENCED)


if __name__ == "__main__":
    main()
