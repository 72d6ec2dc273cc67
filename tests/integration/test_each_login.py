"""Each way to show who one is, in each family of clients: SCRAM-SHA-256 and -512, PLAIN and OAUTHBEARER over SASL_SSL,
a client's certificate over SSL; Java, librdkafka, kafka-python, aiokafka and franz-go.

Every client consumes in a group of its own, produces and commits by that login, with the rights that its ACLs give it,
while the brokers' certificate is another one, while the coordinator is killed, and while sessions and tokens end again
and again. No group's generation changes, not once. And none gets in by a name that the certificate lacks.

Too long for `make test`, which has SCRAM and PLAIN in four families and Java's tokens (`test_sasl_clients`), and TLS
without a client's certificate (`test_tls_clients`): `make logins`, in the nightly.
"""

import hashlib
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)
from muster_coordinator.settings import STANDARD_AUTHORIZER

from tests import kafka_tools
from tests.certificates import Authority
from tests.clients.families import FAMILIES, Families, Settings
from tests.clients.families import certified as by_certificate
from tests.clients.member import Member
from tests.clients.refusals import hear, wrong_name
from tests.cluster import MusterCluster, wait_until, watch_stays
from tests.integration.test_sasl_clients import ADMIN, PARTITIONS, PLAIN_USER, ROOT, Closed, TokenEndpoint, metrics

WHOLE = os.environ.get("MUSTER_LOGINS") == "whole"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.java,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not WHOLE, reason="five families of clients, five logins: make logins, in the nightly"),
]

SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
MECHANISMS = (*SCRAM, "PLAIN", "OAUTHBEARER")
AGAIN_MIN = 2 * len(FAMILIES)
"""aiokafka comes anew instead; the other four have two connections and more each."""
PEOPLE = Authority("People")


def families_of(cluster: MusterCluster, topic: str, made: Callable[[str], Settings], stack: ExitStack) -> Families:
    """At this cluster's addresses."""

    def generation(group: str) -> int | None:
        answers = [cluster.admin(n, f"/v1/groups/{group}") for n in cluster.alive()]
        return next((int(body["generation"]) for code, body in answers if code == 200), None)

    def said(group: str) -> list[str]:
        """By the replicas."""
        logs = [cluster.output, *cluster.folder.glob("replica-*/*.log")]
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return [line for line in lines if f'"{group}"' in line]

    def at_it(family: str) -> Settings:
        return {"bootstrap": cluster.bootstrap, **made(family)}

    return Families(topic, PARTITIONS, at_it, generation, stack, said)


def shown(cluster: MusterCluster, replica: int, ca: str, own: tuple[Path, Path] | None = None) -> str:
    """The digest of the certificate that a new connection sees, verified."""
    context = ssl.create_default_context(cafile=ca)
    if own is not None:
        context.load_cert_chain(*own)
    line = socket.create_connection(("127.0.0.1", cluster.client_port(replica)), 10)
    with context.wrap_socket(line, server_hostname="127.0.0.1") as tls:
        found = tls.getpeercert(binary_form=True)
    assert found is not None, "it was verified"
    return hashlib.sha256(found).hexdigest()


def all_show_another(cluster: MusterCluster, before: str, ca: str, own: tuple[Path, Path] | None = None) -> bool:
    return before not in {shown(cluster, replica, ca, own) for replica in cluster.alive()}


def through_a_rotation_and_a_fail_over(
    cluster: MusterCluster, all_: Families, folder: Path, ca: str, own: tuple[Path, Path] | None
) -> int:
    """The killed replica."""
    before = shown(cluster, 0, ca, own)
    ROOT.issue("another", ("127.0.0.1",)).write(folder)
    wait_until("another certificate is shown", lambda: all_show_another(cluster, before, ca, own), 30)
    all_.go_on("with another certificate")
    coordinators = [n for n in cluster.alive() if cluster.admin(n, f"/v1/groups/{all_.group('java')}")[0] == 200]
    killed = coordinators[0]
    cluster.kill(killed)
    all_.go_on("after a fail-over")
    return killed


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    it = Closed(tmp_path_factory.mktemp("each-login"))
    try:
        yield it
    finally:
        it.cluster.close()
        said = it.output()
        assert "canary" not in said
        assert "Traceback" not in said


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    it = TokenEndpoint()
    try:
        yield it
    finally:
        it.shutdown()
        it.server_close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_family_by_each_mechanism(closed: Closed, endpoint: TokenEndpoint, mechanism: str) -> None:
    topic = f"by-{mechanism.lower()}"
    names = {family: PLAIN_USER if mechanism == "PLAIN" else f"{topic}-{family}" for family in FAMILIES}
    if mechanism in SCRAM:
        for name in names.values():
            closed.add(name, SCRAM[mechanism])
    who = [word for name in sorted(set(names.values())) for word in ("--allow-principal", f"User:{name}")]
    groups = ("--group", f"{topic}-", "--pattern", "prefixed")
    closed.muster("acl", "add", *who, "--consumer", "--topic", topic, *groups)
    closed.muster("acl", "add", *who, "--producer", "--topic", topic)
    closed.admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(20)

    def made(family: str) -> Settings:
        if mechanism == "OAUTHBEARER" and family == "java":
            return {"properties": endpoint.properties(closed.ca, names[family]), "jvm": endpoint.jvm}
        login = {"mechanism": mechanism, "user": names[family], "password": f"canary-{names[family]}"}
        return {"ca": closed.ca, "sasl": {**login, "endpoint": endpoint.url}}

    with ExitStack() as stack:
        families = families_of(closed.cluster, topic, made, stack)
        killed = through_a_rotation_and_a_fail_over(closed.cluster, families, Path(closed.ca).parent, closed.ca, None)
        others = list(closed.cluster.alive())
        before = again(closed, mechanism, others)
        wait_until(
            "sessions have ended and gone on", lambda: again(closed, mechanism, others) >= before + AGAIN_MIN, 60
        )
        families.go_on("in later sessions")
        closed.cluster.start_replica(killed)
        families.go_on("with all replicas again")
        families.undisturbed()


def again(closed: Closed, mechanism: str, replicas: list[int]) -> float:
    """How often somebody authenticated again on an open connection."""

    def scraped() -> list[str] | None:
        """None where a busy machine does not answer in time."""
        with suppress(OSError):
            return metrics(closed, replicas)
        return None

    found = wait_until("the metrics are told", scraped, 60)
    lines = [one for one in found if f'"{mechanism}"' in one and "successful again" in one]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_kafkas_tools_administer_a_closed_cluster(closed: Closed) -> None:
    """By `--command-config`; `kafka-acls` and `kafka-configs` do in `test_sasl_clients`. A reset leaves one line of the
    audit."""
    name = "by-tools"
    created = closed.tool("--create", "--topic", name, "--partitions", "2", tool=kafka_tools.TOPICS)
    assert f"Created topic {name}." in created
    assert "PartitionCount: 2" in closed.tool("--describe", "--topic", name, tool=kafka_tools.TOPICS)
    where = ("--bootstrap-server", closed.cluster.bootstrap, "--command-config", str(closed.properties))
    kafka_tools.run(kafka_tools.PRODUCER, *where, "--topic", name, stdin="a\nb\n")
    more = ("--topic", name, "--group", name, "--from-beginning", "--max-messages", "2")
    assert sorted(kafka_tools.run(kafka_tools.CONSUMER, *where, *more).split()) == ["a", "b"]
    assert name in closed.tool("--list", tool=kafka_tools.GROUPS).split()
    reset = ("--reset-offsets", "--group", name, "--topic", name, "--to-earliest", "--execute")
    closed.tool(*reset, tool=kafka_tools.GROUPS)
    rows = [row.split() for row in closed.tool("--describe", "--group", name, tool=kafka_tools.GROUPS).splitlines()]
    found = {int(row[2]): (row[3], row[5]) for row in rows if row[:2] == [name, name]}
    assert {offset for offset, _ in found.values()} == {"0"}
    assert sum(int(lag) for _, lag in found.values()) == 2
    audit = [line for line in closed.output().splitlines() if '"muster.audit"' in line and f'"group:{name}"' in line]
    assert ['"OFFSET_COMMIT"' in line and f'"User:{ADMIN}"' in line for line in audit] == [True], audit


class Certified:
    """Three replicas whose clients must have a certificate of another CA, and are who it says."""

    def __init__(self, folder: Path) -> None:
        self.secret, self.people = folder / "secret", folder / "people"
        ROOT.issue("server", ("127.0.0.1",)).write(self.secret)
        (self.secret / "ca.crt").write_text(ROOT.pem)
        (self.secret / "people.crt").write_text(PEOPLE.pem)
        self.ca = str(self.secret / "ca.crt")
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SSL",
            "ssl.keystore.certificate.chain": str(self.secret / "tls.crt"),
            "ssl.keystore.key": str(self.secret / "tls.key"),
            "listener.name.plaintext.ssl.truststore.location": str(self.secret / "people.crt"),
            "listener.name.plaintext.ssl.client.auth": "required",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:CN=admin",
            "group.initial.rebalance.delay.ms": "0",
        }
        self.cluster = MusterCluster(folder / "data", replicas=3, partitions=PARTITIONS, settings=settings)
        self.cluster.start()
        self.own = self.certificate("admin")

    def certificate(self, name: str) -> tuple[Path, Path]:
        return PEOPLE.issue(name, ()).write(self.people, name)

    def made(self, family: str) -> Settings:
        return by_certificate(family, self.ca, *self.certificate(family))

    def admin(self) -> AdminClient:
        crt, key = self.own
        return AdminClient(
            {
                "bootstrap.servers": self.cluster.bootstrap, "security.protocol": "SSL", "ssl.ca.location": self.ca,
                "ssl.certificate.location": str(crt), "ssl.key.location": str(key), "log_level": 0,
            }
        )  # fmt: skip


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    it = Certified(tmp_path_factory.mktemp("certified"))
    try:
        yield it
    finally:
        it.cluster.close()


def allow(admin: AdminClient, family: str, topic: str) -> None:
    def binding(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        who = f"User:CN={family}"
        return AclBinding(
            kind, name, ResourcePatternType.LITERAL, who, "*", operation, AclPermissionType.ALLOW
        )  # fmt: skip

    wanted = [
        binding(ResourceType.TOPIC, topic, AclOperation.READ),
        binding(ResourceType.TOPIC, topic, AclOperation.WRITE),
        binding(ResourceType.GROUP, f"{topic}-{family}", AclOperation.READ),
    ]
    for one in admin.create_acls(wanted).values():
        one.result(20)


def test_each_family_by_its_certificate(certified: Certified) -> None:
    topic = "by-certificate"
    admin = certified.admin()
    for family in FAMILIES:
        allow(admin, family, topic)
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(20)
    with ExitStack() as stack:
        cluster = certified.cluster
        families = families_of(cluster, topic, certified.made, stack)
        killed = through_a_rotation_and_a_fail_over(cluster, families, certified.secret, certified.ca, certified.own)
        cluster.start_replica(killed)
        families.go_on("with all replicas again")
        families.undisturbed()


def test_no_family_gets_in_by_a_name_that_the_certificate_lacks_or_without_its_own(certified: Certified) -> None:
    """`localhost` leads to the same port, and the brokers' certificate is for 127.0.0.1."""
    name = 'muster_client_connections_closed_total{listener="PLAINTEXT",reason="handshake"}'

    def closed() -> float:
        lines = certified.cluster.metrics(0).splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    port = certified.cluster.client_port(0)

    for host, without in (("localhost", False), ("127.0.0.1", True)):
        for family in FAMILIES:
            settings = {"ca": certified.ca} if without else certified.made(family)
            before = closed()
            member = Member(family, bootstrap=f"{host}:{port}", group=f"wrong-{family}", topics=["t"], **settings)
            try:
                wait_until(f"{family} at {host} is refused", lambda before=before: closed() > before, 60)
                watch_stays("it owns nothing", lambda member=member: not member.assigned, 1)
                if not without:
                    hear(member, wrong_name(host)[family])
            finally:
                member.dispose()
