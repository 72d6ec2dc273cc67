"""A group member on aiokafka."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

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

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


def pairs(partitions: Any) -> list[list[Any]]:
    return sorted([p.topic, p.partition] for p in partitions)


class Listener(ConsumerRebalanceListener):
    def __init__(self, program: "Program") -> None:
        self.program = program

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self.program.config.get("commit_on_revoke") and revoked:
            await self.program.commit(None)
        tell("revoked", tps=pairs(revoked))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        coordinator = self.program.consumer._coordinator  # no public way to ask
        tell("assigned", tps=pairs(assigned), generation=coordinator.generation, member=coordinator.member_id)


class Tokens(AbstractTokenProvider):
    def __init__(self, who: dict[str, Any]) -> None:
        self._who = who

    async def token(self) -> str:
        return (await asyncio.to_thread(fresh_token, self._who))[0]


def tokens(config: dict[str, Any]) -> dict[str, Any]:
    who = config.get("sasl") or {}
    return {"sasl_oauth_token_provider": Tokens(who)} if who.get("mechanism") == "OAUTHBEARER" else {}


class Program:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.polling = True
        self.producer: AIOKafkaProducer | None = None
        self.inbox = commands()

    def make(self) -> AIOKafkaConsumer:
        config = self.config
        options = {**python_options(config, "aiokafka", ASSIGNORS), **tokens(config)}
        options["rebalance_timeout_ms"] = config.get("poll_ms", 30000)
        consumer = AIOKafkaConsumer(**options)
        if config.get("assign"):
            consumer.assign([TopicPartition(t, p) for t, p in config["assign"]])
        elif config.get("pattern"):
            consumer.subscribe(pattern=config["pattern"], listener=Listener(self))
        else:
            consumer.subscribe(topics=config["topics"], listener=Listener(self))
        return consumer

    async def commit(self, offsets: Any) -> None:
        try:
            await self.consumer.commit(offsets)
            tell("committed")
        except KafkaError as error:
            tell("commit_failed", error=type(error).__name__)

    async def produce(self, topic: str, partition: int, value: str) -> None:
        if self.producer is None:
            config = self.config
            self.producer = AIOKafkaProducer(
                bootstrap_servers=config["bootstrap"].split(","), **login(config), **encrypted(config), **tokens(config)
            )
            await self.producer.start()
        try:
            await self.producer.send_and_wait(topic, value.encode(), partition=partition)
            tell("produced")
        except KafkaError as error:
            tell("produce_failed", error=type(error).__name__)

    async def obey(self, command: dict[str, Any]) -> bool:
        match command["c"]:
            case "produce":
                await self.produce(command["t"], command["p"], command["v"])
            case "commit" | "commit_async":
                await self.commit(None)
            case "commit_offsets":
                await self.commit({TopicPartition(t, p): OffsetAndMetadata(o, m) for t, p, o, m in command["offsets"]})
            case "fetch":
                found = [[t, p, await self.consumer.committed(TopicPartition(t, p)), ""] for t, p in command["tps"]]
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

    async def run(self) -> None:
        self.consumer = self.make()
        await self.consumer.start()
        while True:
            if not self.inbox.empty() and not await self.obey(self.inbox.get()):
                break
            if self.polling:
                await self.poll()
            else:
                await asyncio.sleep(0.05)
        if self.producer is not None:
            await self.producer.stop()
        await self.consumer.stop()
        tell("closed")

    async def poll(self) -> None:
        try:
            batches = await self.consumer.getmany(timeout_ms=50)
        except KafkaError as error:
            tell("error", error=type(error).__name__, fatal=not getattr(error, "retriable", False))
            await asyncio.sleep(0.2)
            return
        records = [
            [r.topic, r.partition, r.offset, text(r.key), text(r.value)] for batch in batches.values() for r in batch
        ]
        if records:
            tell("records", rs=records)


if __name__ == "__main__":
    asyncio.run(Program(settings()).run())
