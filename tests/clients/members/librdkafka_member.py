"""A group member on confluent-kafka (librdkafka)."""

import queue
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.clients.members.protocol import commands, fresh_token, settings, tell, text


def pairs(partitions: list[TopicPartition]) -> list[list[Any]]:
    return sorted([p.topic, p.partition] for p in partitions)


def identity(metadata: bytes) -> tuple[int, str]:
    """Generation and member id; librdkafka gives them as bytes of its own: a mark, the generation, three texts."""
    head, mark, rest = metadata.partition(b":")
    assert (head, mark) == (b"CGMDv2", b":"), metadata
    return int.from_bytes(rest[:4], sys.byteorder, signed=True), rest[4:].split(b"\0")[1].decode()


def security(config: dict[str, Any]) -> dict[str, Any]:
    """What consumer and producer have in common: who one is, and whom one believes."""
    options: dict[str, Any] = {}
    if config.get("sasl"):
        who = config["sasl"]
        options |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": who["mechanism"]}
        if who["mechanism"] == "OAUTHBEARER":
            options["oauth_cb"] = lambda _: fresh_token(who)
        else:
            options |= {"sasl.username": who["user"], "sasl.password": who["password"]}
    if config.get("ca"):
        protocol = "SASL_SSL" if config.get("sasl") else "SSL"
        options |= {"security.protocol": protocol, "ssl.ca.location": config["ca"]}
    if config.get("certificate"):
        options |= {"ssl.certificate.location": config["certificate"], "ssl.key.location": config["key"]}
    return options


class Program:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.polling = True
        self.expecting = False
        options: dict[str, Any] = {
            "bootstrap.servers": config["bootstrap"],
            "group.id": config["group"],
            "client.id": config.get("client_id", "librdkafka"),
            "partition.assignment.strategy": ",".join(config.get("assignors", ["range"])),
            "session.timeout.ms": config.get("session_ms", 6000),
            "heartbeat.interval.ms": config.get("heartbeat_ms", 500),
            "max.poll.interval.ms": config.get("poll_ms", 30000),
            "auto.offset.reset": {"none": "error"}.get(
                config.get("reset", "earliest"), config.get("reset", "earliest")
            ),
            "enable.auto.commit": bool(config.get("auto_commit_ms")),
            "topic.metadata.refresh.interval.ms": 1000,
            "error_cb": self.on_error,
            "on_commit": self.on_commit,
        }
        if config.get("auto_commit_ms"):
            options["auto.commit.interval.ms"] = config["auto_commit_ms"]
        self.security = security(config)
        self.producer: Producer | None = None
        options |= self.security
        if config.get("instance"):
            options["group.instance.id"] = config["instance"]
        self.cooperative = "cooperative-sticky" in options["partition.assignment.strategy"]
        self.consumer = Consumer(options)
        if config.get("assign"):
            self.consumer.assign([TopicPartition(t, p) for t, p in config["assign"]])
        else:
            self.subscribe([config["pattern"]] if config.get("pattern") else config["topics"])

    def subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(topics, on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        generation, member = identity(bytes(consumer.consumer_group_metadata()))
        tell("assigned", tps=pairs(partitions), generation=generation, member=member)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self.config.get("commit_on_revoke"):
            self.commit()
        tell("revoked", tps=pairs(partitions))

    def on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        tell("lost", tps=pairs(partitions))

    def on_error(self, error: KafkaError) -> None:
        if error.fatal():
            tell("error", error=error.name(), fatal=True)

    def on_commit(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        """Outcome of asynchronous commits, automatic ones included; synchronous ones tell by themselves."""
        if self.expecting:
            self.expecting = False
            tell("committed" if error is None else "commit_failed", error=str(error))

    def commit(self, offsets: list[TopicPartition] | None = None) -> None:
        try:
            if offsets is None:
                done = self.consumer.commit(asynchronous=False)
            else:
                done = self.consumer.commit(offsets=offsets, asynchronous=False)
            bad = [p.error.name() for p in done or [] if p.error]
            if bad:
                tell("commit_failed", error=bad[0])
            else:
                tell("committed")
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                tell("commit_failed", error=error.args[0].name())

    def produce(self, topic: str, partition: int, value: str) -> None:
        if self.producer is None:
            self.producer = Producer(
                {"bootstrap.servers": self.config["bootstrap"], "error_cb": self.on_error, **self.security}
            )

        def delivered(error: KafkaError | None, _: Message) -> None:
            tell("produced") if error is None else tell("produce_failed", error=error.name())

        self.producer.produce(topic, value, partition=partition, on_delivery=delivered)

    def obey(self, command: dict[str, Any]) -> bool:
        match command["c"]:
            case "produce":
                self.produce(command["t"], command["p"], command["v"])
            case "commit":
                self.commit()
            case "commit_async":
                self.expecting = True
                self.consumer.commit(asynchronous=True)
            case "commit_offsets":
                self.commit([TopicPartition(t, p, o, metadata=m) for t, p, o, m in command["offsets"]])
            case "fetch":
                found = self.consumer.committed([TopicPartition(t, p) for t, p in command["tps"]], timeout=10)
                tell(
                    "fetched",
                    offsets=[[p.topic, p.partition, p.offset if p.offset >= 0 else None, p.metadata] for p in found],
                )
            case "seek":
                self.consumer.seek(TopicPartition(command["t"], command["p"], command["o"]))
            case "stop_polling":
                self.polling = False
            case "poll_again":
                self.polling = True
            case "subscribe":
                self.subscribe(command["topics"])
            case "close":
                return False
        return True

    def run(self) -> None:
        inbox = commands()
        while True:
            try:
                if not self.obey(inbox.get(timeout=0.001 if self.polling else 0.2)):
                    break
            except queue.Empty:
                pass
            if self.polling:
                self.poll()
            if self.producer is not None:
                self.producer.poll(0)
        self.consumer.close()
        tell("closed")

    def poll(self) -> None:
        records = []
        for message in self.consumer.consume(500, timeout=0.05):
            error = message.error()
            if error is None:
                records.append(
                    [message.topic(), message.partition(), message.offset(), text(message.key()), text(message.value())]
                )
            elif error.code() != KafkaError._PARTITION_EOF:
                tell("error", error=f"{error.name()} {error.str()}", fatal=error.fatal())
        if records:
            tell("records", rs=records)


if __name__ == "__main__":
    Program(settings()).run()
