"""Runs `muster ...` in a coordinator's pod, by the API server's exec: for what only the coordinators know.

Why in the pod: offsets move by Kafka's protocol, whose answers contain the coordinators' own addresses, and a
port-forward would end at an address that resolves nowhere else. In the pod the addresses resolve, NetworkPolicies allow
the connections, the admin token is a file that never leaves it, and a right of Kubernetes (`create` on pods/exec), with
its audit log, controls the access. The command comes from the coordinators' own release, so it speaks their version.

Not here: groups of a cluster that only `bootstrapServers` names. It is not known which pod may reach it, so the message
names the command to run at a place that can.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from muster_operator import naming
from muster_operator.plugin.objects import CLUSTER, Kind, Objects, Trouble
from muster_operator.plugin.pods import Finished, Pods, is_ready

CONFIG_FILE = "/etc/muster/server.properties"
"""Its path in the pod."""
TOKEN_FILE = "/etc/muster-admin/token"  # its path in the pod, not the token


def words(argv: Sequence[str], bootstrap: object, group_id: str) -> list[str]:
    """`muster ARGV` about a group. Kafka allows any text as a group id: it comes last, where it cannot be taken for an
    option."""
    return ["muster", *argv, f"--bootstrap-server={bootstrap}", "--", group_id]


def cluster_of(group: Mapping[str, Any], argv: Sequence[str]) -> str:
    """Name of the CoordinatorCluster that `argv` can run in. Raises Trouble for a group of another cluster."""
    found = (group["spec"].get("clusterRef") or {}).get("name")
    if found:
        return str(found)
    command = shlex.join(words(argv, group["spec"].get("bootstrapServers"), group["spec"]["groupId"]))
    raise Trouble(
        f"{group['metadata']['name']} belongs to a cluster that is known by its addresses only; run this where they can"
        f" be reached: {command}"
    )


class Coordinators:
    """The pods of one CoordinatorCluster."""

    def __init__(self, objects: Objects, name: str) -> None:
        self.cluster = objects.get(CLUSTER, name)
        self._pods = Pods(self.cluster["metadata"]["namespace"])
        self._name = name

    def counting(self) -> list[str]:
        """Options of `muster group lag` that have records counted where the cluster's topics are in Redis: by the file
        and the variables of the pod's own coordinator."""
        topics = self.cluster["spec"].get("topics") or {}
        return [f"--redis={CONFIG_FILE}"] if topics.get("redis") else []

    def run(self, argv: Sequence[str], group_id: str) -> Finished:
        """Run `muster ARGV` about a group in a Ready coordinator, with the address of its own client port."""
        pods = self._pods.list(selector_of(CLUSTER, self.cluster))
        ready = next((pod["metadata"]["name"] for pod in pods if is_ready(pod)), None)
        if ready is None:
            raise Trouble(f"no coordinator of {self._name} is Ready ({len(pods)} pods)")
        return self._pods.run(ready, naming.COORDINATOR, words(argv, self._address(), group_id))

    def _address(self) -> str:
        listeners = self.cluster["spec"].get("listeners") or ()
        port = next((one["port"] for one in listeners if one.get("type") == "internal"), naming.CLIENT_PORT)
        return f"localhost:{port}"


def selector_of(kind: Kind, obj: Mapping[str, Any]) -> str:
    """Label selector of an object's pods: from its status, else the operator's labels."""
    told = (obj.get("status") or {}).get("selector")
    if told:
        return str(told)
    component = naming.COORDINATOR if kind is CLUSTER else naming.CONSUMER
    return ",".join(
        f"{k}={v}" for k, v in naming.selector(component=component, instance=obj["metadata"]["name"]).items()
    )
