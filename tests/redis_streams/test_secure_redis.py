"""A Redis behind TLS, and a user that may do what the documents name and nothing else.

What is wrong with a certificate is told as a server that cannot be reached, with the words of OpenSSL, and nothing is
sent: neither the password nor a record.
"""

import asyncio
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.server import Failure, Trouble

from tests.certificates import Authority
from tests.cluster import CANARY, MusterCluster, wait_until
from tests.redis_streams.redis_server import NOT_ALLOWED, Connection, RedisServer
from tests.redis_streams.test_fail_over import sentinel
from tests.redis_streams.test_redis_client import PATIENCE_S, listening, using
from tests.redis_streams.test_topics_in_redis import make_topic, send

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CONNECTIONS_MAX = 4
ROOT = Path(__file__).resolve().parents[2]
PASSWORD = f"{CANARY.decode()}-of-redis"
"""`MusterCluster` finds it in no output and no log."""


class Secure:
    """A Redis that knows its clients by certificates, the authority of both sides, and one that nobody trusts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.stranger = Authority(), Authority("A stranger")
        self.ca = folder / "ca.crt"
        self.ca.write_text(self.authority.pem)
        self.other_ca = folder / "other.crt"
        self.other_ca.write_text(self.stranger.pem)
        crt, key = self.authority.issue().write(folder / "server")
        self.mine = self.authority.issue("muster").write(folder / "client")
        self.server = RedisServer(folder, (crt, key, self.ca))

    def client(self, **more: Any) -> Any:
        port = self.server.tls_port
        told = {
            "url": f"rediss://localhost:{port}/0", "timeout_ms": 5_000, "ca": self.ca, "certificate": self.mine[0],
            "key": self.mine[1],
        }  # fmt: skip
        return using(port, **{**told, **more})


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    made = Secure(tmp_path_factory.mktemp("redis"))
    with made.server:
        yield made


def refusal(answer: object) -> str:
    assert isinstance(answer, Failure), answer
    assert answer.trouble is Trouble.AWAY, answer
    return answer.message


def test_a_server_and_a_client_that_know_each_other(secure: Secure) -> None:
    async def asked() -> None:
        async with secure.client() as used:
            assert await used.judged() == ""
            first = await used.append(number=1, durable=True)
            assert not isinstance(first, Failure), first
            told = asyncio.Event()
            end = used.client.news(used.keys[0], EntryId(2**48, 0), told.set)
            end()
            assert secure.server.connect().ask("XLEN", used.keys[0]) == 1

    asyncio.run(asked())


def test_who_cannot_be_verified_is_sent_nothing(secure: Secure) -> None:
    wrong_name = secure.authority.issue(hosts=("elsewhere.example",)).write(secure.folder / "elsewhere")

    async def asked(**more: Any) -> str:
        async with secure.client(**more) as used:
            said = refusal(await used.append())
            assert secure.server.connect().ask("EXISTS", used.keys[0]) == 0
            return said

    assert "CERTIFICATE_VERIFY_FAILED" in asyncio.run(asked(ca=secure.other_ca))
    assert "CERTIFICATE_VERIFY_FAILED" in asyncio.run(asked(ca=None)), "those of the system"
    assert "Redis cannot be reached" in asyncio.run(asked(url=f"redis://localhost:{secure.server.tls_port}/0"))
    assert "Redis cannot be reached" in asyncio.run(asked(url=f"rediss://localhost:{secure.server.port}/0"))
    with RedisServer(secure.folder / "elsewhere", (*wrong_name, secure.ca)) as other:
        url = f"rediss://localhost:{other.tls_port}/0"
        assert "Hostname mismatch" in asyncio.run(asked(url=url))


def test_the_authority_that_is_named_is_the_only_one(
    secure: Secure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """OpenSSL takes the system's from this variable, once for each certificate (`client_context`): so this is a new
    one, whatever tests were before."""
    monkeypatch.setenv("SSL_CERT_FILE", str(secure.ca))
    certificate, key = secure.authority.issue("muster").write(tmp_path / "mine")

    async def asked(**more: Any) -> object:
        async with secure.client(**more) as used:
            return await used.append()

    assert "CERTIFICATE_VERIFY_FAILED" in refusal(asyncio.run(asked(ca=secure.other_ca)))
    assert not isinstance(asyncio.run(asked(ca=None, certificate=certificate, key=key)), Failure)


def test_sentinels_too_are_asked_by_tls_and_one_that_cannot_be_verified_names_nobody(secure: Secure) -> None:
    def shown(authority: Authority, folder: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.issue().write(secure.folder / folder))
        return context

    told = ("ip", "localhost", "port", str(secure.server.tls_port), "config-epoch", "1", "flags", "master")

    async def asked() -> None:
        async with listening(sentinel(*told), shown(secure.authority, "sentinel")) as port:
            named: dict[str, Any] = {
                "url": "rediss://Orders/0",
                "primary": "Orders",
                "sentinels": (("localhost", port),),
            }
            async with secure.client(**named) as used:
                assert await used.judged() == ""
                assert not isinstance(await used.append(number=1, durable=True), Failure)
                assert secure.server.connect().ask("XLEN", used.keys[0]) == 1
            async with secure.client(**named, ca=secure.other_ca) as used:
                assert "CERTIFICATE_VERIFY_FAILED" in refusal(await used.append())
        for encrypted, why in ((shown(secure.stranger, "stranger"), "CERTIFICATE_VERIFY_FAILED"), (None, "")):
            async with listening(sentinel(*told), encrypted) as port:
                named["sentinels"] = (("localhost", port),)
                async with secure.client(**named) as used:
                    said = refusal(await used.append())
                    assert "no Sentinel tells where Orders is" in said
                    assert why in said

    asyncio.run(asked())


def test_renewed_files_are_read_at_the_next_connection(tmp_path: Path) -> None:
    """Authority, certificate and key of both sides are replaced under one client, piece by piece."""
    secure = Secure(tmp_path)

    async def again(used: Any, number: int) -> object:
        """The number is one try's: what nobody answered is asked for anew by the same."""
        for _ in range(CONNECTIONS_MAX):  # each finds out by itself that the server went away
            answer = await used.append(number=number)
            if not isinstance(answer, Failure) or answer.trouble is Trouble.AWAY:
                return answer
        raise AssertionError(answer)

    async def asked() -> None:
        async with secure.client(connections_max=CONNECTIONS_MAX) as used:
            assert not isinstance(await used.append(number=1), Failure)
            new = Authority("The next one")
            new.issue().write(secure.folder / "server")
            of_client = new.issue("muster").write(secure.folder / "renewed")
            secure.server.kill()
            secure.server.start()
            assert "CERTIFICATE_VERIFY_FAILED" in refusal(await again(used, 2)), "its own authority is the old one"
            secure.server.kill()
            secure.ca.write_text(new.pem)
            secure.server.start()
            secure.mine[0].write_bytes(of_client[0].read_bytes())
            for _ in range(3 * CONNECTIONS_MAX):  # none is lost to the pool by such a failure
                assert "KEY_VALUES_MISMATCH" in refusal(await again(used, 2)), "the certificate is new, the key is old"
            secure.mine[1].unlink()
            assert "No such file" in refusal(await again(used, 2))
            secure.mine[1].write_bytes(of_client[1].read_bytes())
            assert not isinstance(await again(used, 2), Failure)

    with secure.server:
        asyncio.run(asked())


def test_a_client_without_its_certificate_is_refused(secure: Secure) -> None:
    foreign = secure.stranger.issue("muster").write(secure.folder / "foreign")

    async def asked(**more: Any) -> object:
        async with secure.client(**more) as used:
            return await used.append()

    for told in ({"certificate": None, "key": None}, {"certificate": foreign[0], "key": foreign[1]}):
        answer = asyncio.run(asked(**told))
        assert isinstance(answer, Failure), answer


def test_a_file_that_is_not_there_refuses_the_start(secure: Secure, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.crt"
    settings = {
        "topics.mode": "redis", "redis.url": f"rediss://localhost:{secure.server.tls_port}/0",
        "redis.ssl.ca.location": str(missing),
    }  # fmt: skip
    cluster = MusterCluster(tmp_path / "disk", replicas=1, settings=settings)
    try:
        with pytest.raises(AssertionError):
            cluster.start()
    finally:
        cluster.close()
    said = "".join(path.read_text() for path in tmp_path.rglob("*.log"))
    assert f"redis.ssl.ca.location={missing}: No such file or directory" in said


def documented_rights(server: RedisServer) -> list[str]:
    """The user in docs/clients.md, as an administrator would copy it."""
    text = (ROOT / "docs" / "clients.md").read_text()
    found = re.findall(r"^ACL SETUSER muster (.*)$", text, re.MULTILINE)
    assert len(found) == 2, "that of each replica, and what the mirror of groups needs besides"
    later = re.findall(r"^From Redis 7\.2 on (.*) besides", text, re.MULTILINE)
    assert len(later) == 1
    if server.version >= (7, 2):
        found += re.findall("`(.*?)`", later[0])
    return " ".join(found).replace(">PASSWORD", f">{PASSWORD}").split()


def retention_looked(admin: Connection) -> bool:
    counted = admin.ask("INFO", "commandstats")
    return b"cmdstat_memory|usage:" in counted and b"cmdstat_hscan:" in counted


def shown(admin: Connection) -> list[tuple[bytes, int]]:
    """(group, lag) of the stream, by XINFO GROUPS."""
    groups = admin.ask("XINFO", "GROUPS", "muster:{closed:0}")
    return [(one[1], one[-1]) for one in groups]


def test_a_user_with_the_documented_rights_is_enough_over_tls(secure: Secure, tmp_path: Path) -> None:
    admin = secure.server.connect()
    assert admin.ask("ACL", "SETUSER", "muster", "reset", *documented_rights(secure.server), "~korvet:*") == b"OK"
    assert admin.ask("ACL", "LOG", "RESET") == b"OK"
    port = secure.server.tls_port
    settings = {
        "topics.mode": "redis", "redis.url": f"rediss://localhost:{port}/0", "redis.durability": "aof",
        "redis.username": "muster", "redis.password": PASSWORD, "redis.ssl.ca.location": str(secure.ca),
        "redis.ssl.certificate.location": str(secure.mine[0]), "redis.ssl.key.location": str(secure.mine[1]),
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.check.interval.ms": "1000", "log.retention.bytes": "1000000", "redis.groups.mirror": "true",
    }  # fmt: skip
    values = [b"%d" % n for n in range(50)]
    with MusterCluster(tmp_path / "disk", replicas=1, partitions=1, settings=settings) as cluster:
        make_topic(cluster, "closed", 1)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["closed"])
        found: list[bytes | None] = []

        def all_read() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= len(values)

        try:
            send(cluster, "closed", values)
            wait_until("all are read", all_read, PATIENCE_S, every=0)
            consumer.commit(asynchronous=False)
            wait_until("a look at the retention", lambda: retention_looked(admin), 30)
            wait_until("the group is shown", lambda: shown(admin) == [(b"g", 0)], 30)
            admin_of_kafka = AdminClient({"bootstrap.servers": cluster.bootstrap})
            consumer.close()
            admin_of_kafka.delete_consumer_groups(["g"])["g"].result(PATIENCE_S)
            wait_until("it is shown no more", lambda: shown(admin) == [], 30)
            on_a_stream_of_others(cluster, admin)
        finally:
            consumer.close()
        assert found == values
    denied = [dict(zip(row[::2], row[1::2], strict=True)) for row in admin.ask("ACL", "LOG")]
    assert [(row[b"object"], row[b"context"]) for row in denied] == []


def on_a_stream_of_others(cluster: MusterCluster, admin: Connection) -> None:
    """A group is shown there, and goes with the topic."""

    def groups() -> int:
        return len(admin.ask("XINFO", "GROUPS", "korvet:there"))

    admin.ask("XADD", "korvet:there", "5-0", "data", "1")
    kafka = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic: Any = NewTopic("there", 1, 1, config={"redis.stream": "korvet:{topic}"})
    kafka.create_topics([topic])["there"].result(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "on", "auto.offset.reset": "earliest"})
    consumer.subscribe(["there"])
    try:
        wait_until("it is read", lambda: consumer.poll(0.2) is not None, PATIENCE_S, every=0)
        consumer.commit(asynchronous=False)
        wait_until("the group is shown", lambda: groups() == 1, 30)
    finally:
        consumer.close()
    kafka.delete_topics(["there"])["there"].result(PATIENCE_S)
    wait_until("its group is gone, too", lambda: groups() == 0, 30)
    assert admin.ask("XLEN", "korvet:there") == 1


def test_a_right_that_is_missing_is_told(secure: Secure) -> None:
    rights = [right for right in documented_rights(secure.server) if right not in ("+xadd", "~muster:*")]
    secure.server.connect().ask("ACL", "SETUSER", "less", "reset", *rights)

    async def asked(**more: Any) -> object:
        async with secure.client(**more) as used:
            return await used.append()

    for right, told in (("", "permissions to access"), ("~client:*", NOT_ALLOWED.pattern)):
        if right:
            secure.server.connect().ask("ACL", "SETUSER", "less", right)
        answer = asyncio.run(asked(username="less", password=PASSWORD))
        assert isinstance(answer, Failure), answer
        assert answer.trouble is Trouble.REFUSED
        assert re.search(told, answer.message), answer
    wrong = asyncio.run(asked(username="less", password="wrong"))
    assert "WRONGPASS" in refusal(wrong) or "invalid username-password" in refusal(wrong)
