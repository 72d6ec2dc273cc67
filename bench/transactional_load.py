"""Transactions by librdkafka, as fast as they end: a process of its own, which prints one JSON document.

    python -m bench.transactional_load --bootstrap A,B --producers 10 --window-s 4

Raw frames (`bench/loadgen`) would have to play a client's state machine: three coordinators, repetitions while the
transaction before still completes, epochs. What users run is a library, so this load is one: its own processor time,
which is much more than the generator's, stands beside the figures and is the same for all sides. One thread and one
producer (`transactional.id`, group, and by librdkafka's sticky partitioner mostly one partition) each.
"""

import argparse
import json
import math
import os
import sys
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

ANSWER_S_MAX = 60
VALUE = b"v" * 100
STACK_BYTES = 1 << 20


@dataclass(slots=True)
class Load:
    """What all producers share. `begins_s`, `ends_s`: of the window, by the monotonic clock."""

    bootstrap: str
    topic: str
    records: int
    begins_s: float = math.inf
    ends_s: float = math.inf
    ready: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    started: threading.Event = field(default_factory=threading.Event)
    latencies_s: list[float] = field(default_factory=list)
    """Of each transaction that ended in the window; `list.append` is atomic."""
    errors: list[str] = field(default_factory=list)


def produce(load: Load, number: int, prefix: str) -> None:
    """One producer's life; what it met is in `load`."""
    name = f"{prefix}-{number}"
    try:
        quiet = {"bootstrap.servers": load.bootstrap, "log_level": 0}
        reader = Consumer({**quiet, "bootstrap.servers": "127.0.0.1:1", "group.id": name})
        group = reader.consumer_group_metadata()
        reader.close()
        producer = Producer({**quiet, "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(ANSWER_S_MAX)
    except KafkaException as error:
        load.errors.append(f"{name}: {error}")
        return
    finally:
        load.ready.release()
    load.started.wait()
    count = 0
    while (began_s := time.monotonic()) < load.ends_s and not load.errors:
        count += 1
        try:
            producer.begin_transaction()
            for _ in range(load.records):
                producer.produce(load.topic, VALUE)
            offsets = [TopicPartition(load.topic, 0, count)]
            producer.send_offsets_to_transaction(offsets, group, ANSWER_S_MAX)
            producer.commit_transaction(ANSWER_S_MAX)
        except KafkaException as error:
            load.errors.append(f"{name}: {error}")
            return
        ended_s = time.monotonic()
        if load.begins_s <= ended_s < load.ends_s:
            load.latencies_s.append(ended_s - began_s)


def run(load: Load, producers: int, prefix: str, warmup_s: float, window_s: float) -> dict[str, object]:
    threading.stack_size(STACK_BYTES)
    threads = [threading.Thread(target=produce, args=(load, n, prefix), daemon=True) for n in range(producers)]
    for thread in threads:
        thread.start()
    for _ in threads:
        load.ready.acquire()
    load.begins_s = time.monotonic() + warmup_s
    load.ends_s = load.begins_s + window_s
    load.started.set()
    time.sleep(warmup_s)
    used_s = sum(os.times()[:2])
    time.sleep(max(0.0, load.ends_s - time.monotonic()))
    used_s = sum(os.times()[:2]) - used_s
    for thread in threads:
        thread.join(2 * ANSWER_S_MAX)
    return {
        "ended": len(load.latencies_s),
        "rate": len(load.latencies_s) / window_s,
        "latencies_ms": [round(one * 1_000, 3) for one in sorted(load.latencies_s)],
        "cpu_s": used_s,
        "errors": load.errors,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--producers", type=int, required=True)
    parser.add_argument("--records", type=int, default=10)
    parser.add_argument("--warmup-s", type=float, default=1.0)
    parser.add_argument("--window-s", type=float, default=4.0)
    parser.add_argument("--prefix", default="bench", help="of transactional ids and groups")
    words = parser.parse_args()
    load = Load(words.bootstrap, words.topic, words.records)
    document = run(load, words.producers, words.prefix, words.warmup_s, words.window_s)
    json.dump(document, sys.stdout)
    return 1 if load.errors else 0


if __name__ == "__main__":
    sys.exit(main())
