"""A group member on kafka-python."""

import logging
import queue
from typing import Any

from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.structs import OffsetAndMetadata

from tests.clients.members.protocol import (
    commands,
    encrypted,
    fresh_token,
    login,
    python_options,
    settings,
    tell,
    text,
)

POLL_MS = 2_000
"""Not less: when SyncGroup is answered between two polls, kafka-python 3.0 forgets the assignment for good, against any
broker. So there are few such moments, and they are short (`Program.run`)."""

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def pairs(partitions: Any) -> list[list[Any]]:
    return sorted([p.topic, p.partition] for p in partitions)


class Listener(AsyncConsumerRebalanceListener):
    """Asynchronous, because its callbacks run where heartbeats do: a blocking commit there would wait for itself."""

    def __init__(self, program: "Program") -> None:
        self.program = program

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self.program.config.get("commit_on_revoke") and revoked:
            await self.program.consumer.commit_async(callback=self.program.on_commit)
        tell("revoked", tps=pairs(revoked))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        tell("assigned", tps=pairs(assigned))

    async def on_partitions_lost(self, lost: Any) -> None:
        tell("lost", tps=pairs(lost))


class Tokens(AbstractTokenProvider):
    def __init__(self, who: dict[str, Any]) -> None:
        self._who = who

    def token(self) -> str:
        return fresh_token(self._who)[0]


def tokens(config: dict[str, Any]) -> dict[str, Any]:
    who = config.get("sasl") or {}
    return {"sasl_oauth_token_provider": Tokens(who)} if who.get("mechanism") == "OAUTHBEARER" else {}


class Program:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.polling = True
        self.producer: KafkaProducer | None = None
        options = {**python_options(config, "kafka-python", ASSIGNORS), **tokens(config)}
        self.consumer = KafkaConsumer(**options)
        if config.get("assign"):
            self.consumer.assign([TopicPartition(t, p) for t, p in config["assign"]])
        elif config.get("pattern"):
            self.consumer.subscribe(pattern=config["pattern"], listener=Listener(self))
        else:
            self.consumer.subscribe(topics=config["topics"], listener=Listener(self))

    def commit(self, offsets: Any) -> None:
        try:
            self.consumer.commit(offsets)
            tell("committed")
        except KafkaError as error:
            tell("commit_failed", error=type(error).__name__)

    def produce(self, topic: str, partition: int, value: str) -> None:
        if self.producer is None:
            config = self.config
            self.producer = KafkaProducer(
                bootstrap_servers=config["bootstrap"].split(","), **login(config), **encrypted(config), **tokens(config)
            )
        sent = self.producer.send(topic, value.encode(), partition=partition)
        sent.add_callback(lambda _: tell("produced"))
        sent.add_errback(lambda error: tell("produce_failed", error=type(error).__name__))

    def obey(self, command: dict[str, Any]) -> bool:
        match command["c"]:
            case "produce":
                self.produce(command["t"], command["p"], command["v"])
            case "commit":
                self.commit(None)
            case "commit_async":
                self.consumer.commit_async(callback=self.on_commit)
            case "commit_offsets":
                wanted = {TopicPartition(t, p): OffsetAndMetadata(o, m, -1) for t, p, o, m in command["offsets"]}
                self.commit(wanted)
            case "fetch":
                found = []
                for t, p in command["tps"]:
                    value = self.consumer.committed(TopicPartition(t, p), metadata=True)
                    found.append([t, p, value.offset if value else None, value.metadata if value else ""])
                tell("fetched", offsets=found)
            case "seek":
                self.consumer.seek(TopicPartition(command["t"], command["p"]), command["o"])
            case "stop_polling":
                self.polling = False
            case "poll_again":
                self.polling = True
            case "subscribe":
                self.consumer.subscribe(topics=command["topics"], listener=Listener(self))
            case "close":
                return False
        return True

    def on_commit(self, _: Any, answer: Any) -> None:
        if isinstance(answer, Exception):
            tell("commit_failed", error=type(answer).__name__)
        else:
            tell("committed")

    def run(self) -> None:
        inbox = commands()
        while True:
            try:
                if not self.obey(inbox.get_nowait() if self.polling else inbox.get(timeout=0.2)):
                    break
            except queue.Empty:
                pass
            if self.polling:
                self.poll()
        self.consumer.close()
        tell("closed")

    def poll(self) -> None:
        try:
            batches = self.consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:
            tell("error", error=type(error).__name__, fatal=not getattr(error, "retriable", False))
            return
        records = [
            [r.topic, r.partition, r.offset, text(r.key), text(r.value)] for batch in batches.values() for r in batch
        ]
        if records:
            tell("records", rs=records)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # why a connection fails is told there alone
    Program(settings()).run()
