"""Act when partitions come and go: two members, the second joins later, both tell what happens to them.

    python docs/examples/rebalance_listener.py localhost:9092

With the cooperative-sticky assignor the first member gives back only what the second one gets and reads on from the
rest. `on_revoke` is the last moment to commit for a partition; after `on_lost` it is too late, somebody else has it.
"""

import sys
import threading
import time

import orders
from confluent_kafka import Consumer, KafkaError, KafkaException

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
orders.place(bootstrap, topic, count=100, partitions=6)
shared = threading.Event()


def member(name: str) -> None:
    """Read until the group is shared; the callbacks run inside `poll` and `close`."""
    held = set[int]()

    def assigned(_consumer, partitions):
        held.update(one.partition for one in partitions)
        print(f"{name}: + {sorted(one.partition for one in partitions)}, now {sorted(held)}")

    def revoked(consumer, partitions):
        numbers = {one.partition for one in partitions}
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read since the last commit
                raise
        held.difference_update(numbers)
        print(f"{name}: - {sorted(numbers)}, now {sorted(held)}")

    def lost(_consumer, partitions):
        held.difference_update(one.partition for one in partitions)
        print(f"{name}: lost {sorted(one.partition for one in partitions)}; what was not committed is read again")

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-listener",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    deadline = time.monotonic() + 60
    while not shared.is_set() and time.monotonic() < deadline:
        consumer.poll(0.2)
        loads[name] = len(held)
        if loads.get("first") and loads.get("second"):
            shared.set()
    consumer.close()


loads: dict[str, int] = {}
first = threading.Thread(target=member, args=("first",))
second = threading.Thread(target=member, args=("second",))
first.start()
while not loads.get("first") and first.is_alive():
    time.sleep(0.1)
second.start()
first.join()
second.join()
print("both members had partitions" if shared.is_set() else "the group was never shared")
sys.exit(0 if shared.is_set() else 1)
