"""A node without anything of ours, for tests that install what is cluster-wide."""

import json

from e2e.fleet import until
from e2e.node.client import Client
from e2e.operator_process import DEFINITIONS

OURS = "app.kubernetes.io/managed-by=muster-operator"
CLAIM = "muster-operator-namespace"
GONE_S = 120.0


def clean(client: Client) -> None:
    """No release of ours, no definitions and with them no objects, no pods, no claims on namespaces."""
    for one in json.loads(client.helm("list", "--all-namespaces", "--output=json")):
        if one["chart"].startswith("muster-"):
            client.within(one["namespace"]).helm("uninstall", one["name"], "--wait", timeout_s=90)
    client.kubectl(
        "delete", "crd", *(f"{one}.muster.dev" for one in DEFINITIONS), "--ignore-not-found", timeout_s=GONE_S
    )
    for lease in client.read("leases", "--all-namespaces", f"--field-selector=metadata.name={CLAIM}")["items"]:
        client.within(lease["metadata"]["namespace"]).kubectl("delete", "lease", CLAIM, "--ignore-not-found")

    def left() -> list[str]:
        return client.kubectl("get", "pods", "--all-namespaces", f"--selector={OURS}", "--output=name").split()

    until("end of every pod of ours", lambda: not left(), GONE_S)
