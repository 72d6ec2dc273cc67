"""Every family of clients on each way into a closed cluster: Java, librdkafka, kafka-python, aiokafka, franz-go; from
outside through NodePorts by a password and by a certificate, inside by the bootstrap Service and the pods' names.

All verify chain and host name, at the address that they begin with, at those that they are told, and at those that they
go to when their group's coordinator has gone. Nobody gets in by an address or a name that the certificate lacks, or
when the authority is another one, although all lead to the right pod; each says why in its own words.
"""

import hashlib
import ssl
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.detour import ADDRESS, NAME, detour, machine
from e2e.fleet import until
from e2e.node.client import Client
from e2e.node.session import Description
from e2e.test_secured_coordinators import KUBELET_S
from e2e.ways_in import BY_PASSWORD, PARTITIONS, TOPICS, WAYS, WaysIn
from tests.certificates import Authority
from tests.clients.families import FAMILIES, Families
from tests.clients.member import Member
from tests.clients.refusals import UNKNOWN_AUTHORITY, hear, wrong_name
from tests.integration.connections import peers_of

pytestmark = pytest.mark.timeout(900)

AT_ONCE = ("--grace-period=0", "--force")
"""No SIGTERM that is heeded: nothing is handed over."""
REFUSED_S = 90.0
FINGERPRINT = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], int(sys.argv[2])), timeout=10))"


@pytest.fixture(scope="module")
def ways(operator: Client, node: Description, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaysIn]:
    client = node.client(f"ways-in-{uuid.uuid4().hex[:5]}")
    client.kubectl("create", "namespace", str(client.namespace))
    yield WaysIn(client, tmp_path_factory.mktemp("ways-in"))
    client.kubectl("delete", "namespace", str(client.namespace), "--wait=false")


@pytest.mark.parametrize("name", WAYS)
def test_each_family_goes_on_at_another_pods_address(ways: WaysIn, name: str) -> None:
    """Their group's coordinator hands over and leaves; on one of the ways it dies. Meanwhile all are at another pod."""
    way, topic = WAYS[name], TOPICS[name]
    with ExitStack() as stack:
        families = Families(topic, PARTITIONS, lambda family: ways.settings(way, family), ways.generation, stack)

        def coordinator() -> int:
            (found,) = {ways.cluster.coordinator(families.group(family)) for family in FAMILIES}
            return found

        def peers() -> dict[str, set[tuple[str, int]]]:
            return {family: peers_of(member.pid) for family, member in families.members.items()}

        if way.base is not None:
            addresses = [ways.address(way, ordinal) for ordinal in range(ways.cluster.replicas)]
            assert ways.bootstrap[name] == ",".join(f"{host}:{port}" for host, port in addresses), "they begin there"
        before = coordinator()
        left = ways.address(way, before)
        assert {family for family, seen in peers().items() if left in seen} == set(FAMILIES)
        with ways.away(before, *(AT_ONCE if name == "certificate" else ())):
            families.go_on("without that pod")
            after = coordinator()
            assert after != before
            new = ways.address(way, after)
            assert {family for family, seen in peers().items() if new in seen and left not in seen} == set(FAMILIES)
        families.go_on("with all pods again")
        families.undisturbed()
        for family in FAMILIES:
            offsets = ways.cluster.group(families.group(family))["offsets"]
            assert sum(one["offset"] for one in offsets) == len(families.produced), (family, offsets)


def refused(ways: WaysIn, words: dict[str, str], **settings: object) -> None:
    """Each family says so in its words, and has got nothing."""
    with ExitStack() as stack:
        members = {}
        for family in FAMILIES:
            made = {**ways.settings(WAYS["password"], family), **settings}
            members[family] = Member(family, group=f"orders-no-{family}", topics=[TOPICS["password"]], **made)
            stack.callback(members[family].dispose)
        for family, member in members.items():
            hear(member, words[family], REFUSED_S)
        for member in members.values():
            assert not member.assigned
            assert not member.records


def admitted(ways: WaysIn, host: str, outside: Callable[[list[str]], list[str]]) -> None:
    """Each family reads what is in the topic, beginning at this address."""
    with ExitStack() as stack:
        members = []
        for family in FAMILIES:
            made = {**ways.settings(WAYS["password"], family), "bootstrap": f"{host}:{BY_PASSWORD}", "machine": outside}
            group = f"orders-by-{host}-{family}"
            members.append(Member(family, group=group, topics=[TOPICS["password"]], **made))
            stack.callback(members[-1].dispose)
        for member in members:
            member.wait(f"{member.client} by {host}", lambda it: len(it.assigned) == PARTITIONS, 90)


def test_nobody_gets_in_by_an_address_or_a_name_that_the_certificate_lacks(ways: WaysIn, tmp_path: Path) -> None:
    """Until `tls.alternativeNames` has both: then everybody does, by the same ones. So it was for the name alone."""
    host, port = ways.address(WAYS["password"], 0)

    def there(argv: list[str]) -> list[str]:
        return machine(argv, tmp_path)

    def shown(at: str) -> str:
        argv = there([sys.executable, "-c", FINGERPRINT, at, str(port)])
        pem = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()

    with detour(host, tmp_path):
        before = shown(host)
        for at in (ADDRESS, NAME):
            assert shown(at) == before, "it is the right pod"
            refused(ways, wrong_name(at), bootstrap=f"{at}:{port}", machine=there)
        uids = {name: pod["metadata"]["uid"] for name, pod in ways.cluster.pods().items()}
        names = f'{{"alternativeNames":["{ADDRESS}","{NAME}"]}}'
        patch = f'[{{"op":"replace","path":"/spec/listeners/1/tls","value":{names}}}]'
        ways.client.kubectl("patch", "cc/main", "--type=json", "--patch", patch)
        until("a certificate with both", lambda: shown(host) != before, KUBELET_S, every=2.0)
        for at in (ADDRESS, NAME):
            admitted(ways, at, there)
        assert {name: pod["metadata"]["uid"] for name, pod in ways.cluster.pods().items()} == uids, "no pod restarted"


def test_nobody_believes_an_authority_that_is_not_the_clusters(ways: WaysIn, tmp_path: Path) -> None:
    """The address is right, and in the certificate."""
    stranger = tmp_path / "stranger.crt"
    stranger.write_text(Authority("Somebody else").pem)
    refused(ways, UNKNOWN_AUTHORITY, ca=str(stranger))
