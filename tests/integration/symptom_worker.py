"""One consumer as a process of its own: librdkafka, some work for each record, and a way of committing.

    python -m tests.integration.symptom_worker '{"topic": "orders", "work_s": 0.1, "commit": "each", "client": {…}}'

For each record it prints `done PARTITION OFFSET`, after the work and before the commit; `error NAME` is of a poll,
`refused NAME` a commit that the coordinator refuses. `commit` is `each` (after each record, synchronously) or `auto`
(librdkafka's, by `auto.commit.interval.ms`). With `die_at` it is gone, as by SIGKILL, between the work on that many
records and the commit. SIGTERM closes it: what is stored is committed, and it leaves.
"""

import json
import os
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    order = json.loads(sys.argv[1])
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    by_itself = order["commit"] == "auto"
    consumer = Consumer({"enable.auto.commit": by_itself, "auto.offset.reset": "earliest", **order["client"]})
    consumer.subscribe([order["topic"]])
    done = 0
    while not ended:
        record = consumer.poll(0.1)
        if record is None:
            continue
        error = record.error()
        if error is not None:
            say(f"error {error.name()}")
            continue
        time.sleep(order.get("work_s", 0.0))
        say(f"done {record.partition()} {record.offset()}")
        done += 1
        if done == order.get("die_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if not by_itself:
            try:
                consumer.commit(record, asynchronous=False)
            except KafkaException as refusal:
                say(f"refused {refusal.args[0].name()}")
    consumer.close()


if __name__ == "__main__":
    main()
