"""A real cert-manager for a test: its definitions on the API server, its controller as a process, an Issuer with a CA.

The controller is a process beside the test, as an administrator: what is under test is what it makes of our
Certificates, and not its own installation. There is no webhook: what that would refuse, the definitions do not.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.fleet import until
from e2e.node.cert_manager import CertManager
from e2e.node.client import Client
from tests.certificates import Authority, Issued

ISSUER = "ca"
STOP_TIMEOUT_S = 30.0
KINDS = ("certificates", "certificaterequests", "issuers", "clusterissuers")


def define(client: Client, made: CertManager) -> None:
    """Its definitions, served."""
    files = [f"--filename={path}" for path in made.definitions]
    client.kubectl("apply", "--server-side", "--force-conflicts", *files)
    names = [f"{kind}.cert-manager.io" for kind in KINDS]

    def served() -> bool:
        conditions = [one["status"].get("conditions", ()) for one in client.read("crd", *names)["items"]]
        return all(any(one["type"] == "Established" and one["status"] == "True" for one in each) for each in conditions)

    until("definitions of cert-manager that are served", served, 60)


def undefine(client: Client, made: CertManager) -> None:
    """Gone, with every object of theirs."""
    files = [f"--filename={path}" for path in made.definitions]
    client.kubectl("delete", "--ignore-not-found", *files, timeout_s=90)


@contextmanager
def running(client: Client, made: CertManager, log: Path) -> Iterator[None]:
    """The controller, for every namespace; ended by SIGTERM, which it must obey."""
    argv = [str(made.program), f"--kubeconfig={client.kubeconfig}"]
    with log.open("wb") as stream:
        process = subprocess.Popen(argv, stdout=stream, stderr=subprocess.STDOUT)
    try:
        yield
        assert process.poll() is None, log.read_text()[-4_000:]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def issuer(client: Client) -> Authority:
    """An Issuer `ca` in the client's namespace, of a CA of the test's own."""
    authority = Authority("e2e issuer")
    own = Issued(authority.certificate, authority.key)
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": f"{ISSUER}-key"},
            "stringData": {"tls.crt": own.pem, "tls.key": own.key_pem()},
        },
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Issuer",
            "metadata": {"name": ISSUER},
            "spec": {"ca": {"secretName": f"{ISSUER}-key"}},
        },
    )
    return authority


def renew(client: Client, name: str) -> None:
    """What `cmctl renew` does: the condition by which a Certificate is issued anew."""
    live = client.read("certificate", name)
    wanted = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "a test wants another one",
        "lastTransitionTime": live["metadata"]["creationTimestamp"],
        "observedGeneration": live["metadata"]["generation"],
    }
    kept: list[dict[str, Any]] = [one for one in live["status"]["conditions"] if one["type"] != "Issuing"]
    patch = json.dumps({"status": {"conditions": [*kept, wanted]}})
    client.kubectl("patch", "certificate", name, "--subresource=status", "--type=merge", f"--patch={patch}")
