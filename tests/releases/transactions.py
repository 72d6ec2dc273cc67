"""What two transactional producers did, and that readers of committed data see that of it and nothing else.

One ends what it begins: a transaction with offsets is committed, another one aborted. The other leaves a transaction
open at each stage; whoever has its id next ends it. Each has a partition of its own, because what is open holds up the
readers of what comes behind it.
"""

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.cluster import wait_until
from tests.integration.second_client import SecondClient
from tests.releases import groups, records

if TYPE_CHECKING:
    from tests.releases.life import Life

TOPIC = "transactional"
ENDED, LEFT = 0, 1
IDS = {ENDED: "ends-it", LEFT: "leaves-it-open"}
GROUP, NEVER = "by-transactions", "never-committed"
RECORDS = 5
WAIT_S = 30


def live(life: "Life", stage: int) -> None:
    """Stage 0 is the first. Afterwards everything that was committed has been seen."""
    known = life.known.setdefault("transactions", {str(partition): [] for partition in IDS})
    if stage == 0:
        life.create(TOPIC, len(IDS))
        life.known["no_offsets"].append([NEVER, "events", 0])
    ending = _producer(life.bootstrap, ENDED)
    _begin(ending, ENDED, f"committed at {stage}")
    _with_offset(life.bootstrap, ending, GROUP, 10 * stage)
    ending.commit_transaction(WAIT_S)
    _begin(ending, ENDED, f"aborted at {stage}")
    _with_offset(life.bootstrap, ending, GROUP, 10 * stage + 5)
    ending.abort_transaction(WAIT_S)

    leaving = _producer(life.bootstrap, LEFT)
    _begin(leaving, LEFT, f"committed at {stage}")
    leaving.commit_transaction(WAIT_S)
    _begin(leaving, LEFT, f"open since {stage}")
    _with_offset(life.bootstrap, leaving, NEVER, stage)
    assert leaving.flush(WAIT_S) == 0

    for values in known.values():
        values += _values(f"committed at {stage}")
    life.known["offsets"].setdefault(GROUP, {})["events"] = {"0": [10 * stage, ""]}
    check(life.bootstrap, known)
    wait_until(
        "the offset of the committed transaction is there",
        lambda: groups.committed(life.bootstrap, GROUP, "events", [0]) == {0: (10 * stage, "")},
        WAIT_S,
    )


def check(bootstrap: str, known: dict[str, list[str]]) -> None:
    """A transaction's markers are written after its end was answered, and a moment after a restart."""
    for partition, values in known.items():
        wait_until(
            f"{TOPIC}-{partition} has what was committed",
            lambda partition=partition, values=values: committed(bootstrap, int(partition)) == values,
            WAIT_S,
        )
    assert set(IDS.values()) <= listed(bootstrap)


def committed(bootstrap: str, partition: int) -> list[str]:
    """The values, up to where a reader of committed data gets."""
    consumer = records.reader(bootstrap, "read_committed")
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        values: list[str] = []
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"neither a record nor an end of {TOPIC}-{partition}"
            error = message.error()
            if error is None:
                values.append((message.value() or b"").decode())
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            return values
    finally:
        consumer.close()


def listed(bootstrap: str) -> set[str]:
    """The transactional ids that all coordinators know."""
    found: set[str] = set()
    for port in records.ports(bootstrap):
        client = SecondClient(port)
        try:
            answer = client.ask("ListTransactions", 1, state_filters=[], producer_id_filters=[], duration_filter=-1)
        finally:
            client.close()
        assert answer.error_code == 0, answer
        found |= {one.transactional_id for one in answer.transaction_states}
    return found


def _producer(bootstrap: str, partition: int) -> Producer:
    """Its id's next life: what the one before left open is ended first."""
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": IDS[partition],
            "transaction.timeout.ms": 900_000,
            "log_level": 0,
        }
    )
    made.init_transactions(WAIT_S)
    return made


def _begin(producer: Producer, partition: int, said: str) -> None:
    producer.begin_transaction()
    for value in _values(said):
        producer.produce(TOPIC, value.encode(), partition=partition)


def _with_offset(bootstrap: str, producer: Producer, group: str, offset: int) -> None:
    """An offset of `events`-0 as part of the transaction, by no member of the group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        position = TopicPartition("events", 0, offset)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), WAIT_S)
    finally:
        consumer.close()


def _values(said: str) -> list[str]:
    return [f"{said}: {n}" for n in range(RECORDS)]
