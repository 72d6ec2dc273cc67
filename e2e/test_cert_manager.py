"""What the operator asks cert-manager for, with cert-manager's own definitions and its own controller on a real API
server, and the operator as a process.

No pods run here: what a node's coordinators and their clients make of it is in `test_cert_manager_on_a_node.py`.
"""

import base64
import copy
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from muster_operator.drift import drifted, with_hash

from e2e import cert_manager
from e2e.fleet import condition, throughout, until
from e2e.node.cert_manager import CertManager
from e2e.node.cert_manager import cert_manager as built
from e2e.node.client import Client, Refused
from e2e.node.errors import Unavailable
from e2e.operator_process import OperatorProcess, install_crds, operator_process
from tests.machine_parts import give_up
from tests.operator.resources.owners import EXTERNAL, INTERNAL, cluster_children, cluster_spec

pytestmark = pytest.mark.timeout(400)

NAME = "c-secure-tls"
QUIET_S = 15.0
SAMPLE = Path(__file__).parents[1] / "crds" / "samples" / "coordinatorcluster-full.yaml"


@pytest.fixture(scope="module")
def made() -> CertManager:
    try:
        return built()
    except Unavailable as reason:
        give_up("api", str(reason))


@pytest.fixture
def place(api: Client) -> Client:
    """A namespace of the test's own, on an API server with our definitions."""
    install_crds(api)
    name = f"cm-{uuid.uuid4().hex[:8]}"
    api.kubectl("create", "namespace", name)
    return api.within(name)


@pytest.fixture
def acting(place: Client, tmp_path: Path) -> Iterator[OperatorProcess]:
    flags = (f"--namespace={place.namespace}", f"--own-namespace={place.namespace}")
    with operator_process(place, tmp_path / "operator.log", *flags) as one:
        until("an operator that is ready", lambda: one.probe("/readyz")[0] == 200, 90)
        yield one


@pytest.fixture
def issuing(place: Client, made: CertManager, tmp_path: Path) -> Iterator[None]:
    """cert-manager, installed and running."""
    cert_manager.define(place, made)
    with cert_manager.running(place, made, tmp_path / "cert-manager.log"):
        yield


def asked(names: list[str] | None = None, issuer: str = cert_manager.ISSUER) -> dict[str, Any]:
    """A cluster whose only listener takes its certificate of an Issuer."""
    tls: dict[str, Any] = {"issuerRef": {"name": issuer}}
    listener = {"name": "secure", "type": "internal", "port": 9092, "tls": tls}
    if names is not None:
        tls["alternativeNames"] = names
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "CoordinatorCluster",
        "metadata": {"name": "c"},
        "spec": {"replicas": 3, "listeners": [listener]},
    }


def told(place: Client, type_: str = "CertificatesReady") -> tuple[str, str, str]:
    found = condition(place.read("cc", "c"), type_)
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def valid(place: Client) -> bool:
    return told(place)[:2] == ("True", "CertificatesValid")


def certificate(place: Client) -> x509.Certificate:
    held = place.read("secret", NAME)["data"]
    return x509.load_pem_x509_certificate(base64.b64decode(held["tls.crt"]))


def another(place: Client, before: x509.Certificate) -> x509.Certificate | None:
    try:
        now = certificate(place)
    except Refused:
        return None
    return now if now.serial_number != before.serial_number else None


def hosts(one: x509.Certificate) -> set[str]:
    names = one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(names.get_values_for_type(x509.DNSName))


def wanted_certificates(namespace: str) -> list[dict[str, Any]]:
    """Of the full sample, and of a spec with everything that a Certificate can have from us."""
    everything = {
        "issuerRef": {"name": "corporate", "kind": "ClusterIssuer", "group": "issuers.example.com"},
        "alternativeNames": ["*.kafka.example.com", "192.0.2.1", "2001:db8::1"],
    }
    sample = yaml.safe_load(SAMPLE.read_text())["spec"]
    found = [
        *cluster_children(cluster_spec(**sample)),
        *cluster_children(
            cluster_spec(listeners=[INTERNAL, {**EXTERNAL, "tls": everything}], certificates={"certificateDays": 825}),
            node_addresses=("10.0.0.1", "fd00::1"),
        ),
    ]
    certificates = [copy.deepcopy(dict(one)) for one in found if one["kind"] == "Certificate"]
    for number, one in enumerate(certificates):
        one["metadata"] = {**one["metadata"], "name": f"one-{number}", "namespace": namespace}
    return [with_hash(one) for one in certificates]


def applied(place: Client, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the operator applies them: no field that the definition does not have, and no warning."""
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    words = ("apply", "--server-side", "--force-conflicts", "--field-manager=muster-operator", "--warnings-as-errors")
    said = place.kubectl(*words, "--output=json", "--filename=-", given=given)
    found: list[dict[str, Any]] = json.loads(said)["items"]
    return found


def test_certificates_are_stored_as_they_were_meant(place: Client, made: CertManager) -> None:
    """Nothing is pruned, nothing is drift, and a second apply writes nothing."""
    cert_manager.define(place, made)
    wanted = wanted_certificates(place.namespace)
    assert len(wanted) >= 2
    stored = applied(place, wanted)
    assert [drifted(live, one) for live, one in zip(stored, wanted, strict=True)] == [None] * len(wanted)
    again = applied(place, wanted)
    versions = [[one["metadata"]["resourceVersion"] for one in each] for each in (stored, again)]
    assert versions[0] == versions[1]


def test_a_field_that_the_definition_has_not_would_be_noticed(place: Client, made: CertManager) -> None:
    """What the test above relies on."""
    cert_manager.define(place, made)
    (one, *_) = wanted_certificates(place.namespace)
    one["spec"]["organisation"] = ["ours"]
    with pytest.raises(Refused, match="organisation"):
        applied(place, [one])


def test_issued_renewed_and_made_anew(place: Client, issuing: None, acting: OperatorProcess) -> None:
    """By the CA of the Issuer, for the names that clients are told; at rest nobody writes; then another one by each way
    that there is to get one."""
    authority = cert_manager.issuer(place)
    place.apply(asked())
    until("a certificate that can be used", lambda: valid(place), 60)
    first = certificate(place)
    first.verify_directly_issued_by(authority.certificate)
    assert f"*.c-peers.{place.namespace}.svc" in hosts(first)
    assert told(place)[2].startswith(f"Secret {NAME} is the first that expires")
    version = place.read("certificate", NAME)["metadata"]["generation"]
    writes = acting.writes()

    def at_rest() -> None:
        assert place.read("certificate", NAME)["metadata"]["generation"] == version == 1
        assert acting.writes() == writes

    throughout(time.monotonic() + QUIET_S, at_rest)
    at_rest()

    cert_manager.renew(place, NAME)
    second = until("a renewed certificate", lambda: another(place, first), 60)
    assert second.public_key() != first.public_key(), "a new key with each certificate"
    place.kubectl("delete", "secret", NAME)
    third = until("a certificate after its Secret was deleted", lambda: another(place, second), 60)
    place.apply(asked(["kafka.example.com"]))
    fourth = until("a certificate with one more name", lambda: another(place, third), 60)
    assert hosts(fourth) == hosts(third) | {"kafka.example.com"}
    fourth.verify_directly_issued_by(authority.certificate)
    until("a word that all is well", lambda: valid(place), 60)
    assert place.read("certificate", NAME)["metadata"]["generation"] == 2


def test_installed_after_the_cluster(place: Client, made: CertManager, acting: OperatorProcess, tmp_path: Path) -> None:
    """Without cert-manager, with its definitions alone, with an Issuer that is not there, and with all of it: each time
    the conditions say what is missing."""
    cert_manager.undefine(place, made)
    place.apply(asked())
    until("what is missing", lambda: "is cert-manager installed?" in told(place, "Degraded")[2], 60)
    assert told(place, "Degraded")[0] == "True"
    assert told(place)[0] == "False"
    assert place.read("statefulset", "c")["spec"]["replicas"] == 3, "the rest is made"

    cert_manager.define(place, made)
    until("a Certificate", lambda: place.read("certificates")["items"], 60)
    until("a word that nobody looks", lambda: "is cert-manager running?" in told(place)[2], 30)
    assert told(place)[1] == "CreatingChildren"
    until("the end of its minute", lambda: told(place)[:2] == ("False", "SecretUnusable"), 90)
    assert told(place, "Degraded")[1] == "SecretUnusable"

    with cert_manager.running(place, made, tmp_path / "cert-manager.log"):
        until("cert-manager's words", lambda: "DoesNotExist: Issuing certificate" in told(place)[2], 60)
        cert_manager.issuer(place)
        until("a certificate that can be used", lambda: valid(place), 90)
        until("nothing that is wrong", lambda: told(place, "Degraded")[1] != "SecretUnusable", 30)


def test_a_certificate_of_somebody_elses(
    place: Client, made: CertManager, acting: OperatorProcess, tmp_path: Path
) -> None:
    """Of our name: left as it is, told, and ours is made when it is gone. cert-manager begins then: what it asks for on
    behalf of the other would go by Kubernetes' garbage collector, which does not run here."""
    cert_manager.define(place, made)
    cert_manager.issuer(place)
    theirs = {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": NAME},
        "spec": {"secretName": "web", "dnsNames": ["web.example.com"], "issuerRef": {"name": cert_manager.ISSUER}},
    }
    place.apply(theirs)
    place.apply(asked())
    until("who has the name", lambda: told(place, "Ready")[1] == "NameTaken", 60)
    assert f"Certificate {NAME} exists and belongs to another owner" in told(place, "Ready")[2]
    assert place.read("certificate", NAME)["spec"]["secretName"] == "web"
    place.kubectl("delete", "certificate", NAME)
    until("one of ours", lambda: place.read("certificates")["items"], 60)
    with cert_manager.running(place, made, tmp_path / "cert-manager.log"):
        until("a certificate that can be used", lambda: valid(place), 90)
