"""Access to our kinds with the caller's kubeconfig: list, get, annotate, scale. Every call has a time-out."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from muster_operator import naming

TIMEOUT_S = 15.0
MESSAGE_CHARS_MAX = 500
"""Of what the API server says to a refusal."""


class Kind(NamedTuple):
    """One of our kinds: its plural, short name and singular."""

    plural: str
    short: str
    singular: str


CLUSTER = Kind("coordinatorclusters", "cc", "coordinatorcluster")
GROUP = Kind("consumergroups", "cg", "consumergroup")
KINDS = (CLUSTER, GROUP)


class Trouble(Exception):
    """The command cannot be carried out; the message is for a person and contains no secret."""


def parse_reference(text: str, kinds: Sequence[Kind] = KINDS) -> tuple[Kind, str]:
    """`cg/NAME` or `cc/NAME`, in any spelling of the kind. Raises Trouble for a kind that is not in `kinds`."""
    kind_text, slash, name = text.partition("/")
    for kind in kinds:
        if slash and name and kind_text.lower() in kind:
            return kind, name
    words = {CLUSTER: "cc/NAME (a CoordinatorCluster)", GROUP: "cg/NAME (a ConsumerGroup)"}
    raise Trouble(f"{text!r} must be {' or '.join(words[kind] for kind in reversed(kinds))}")


def ask(call: Callable[..., Any], subject: str, **arguments: Any) -> Any:  # noqa: ANN401  # as typed as the call
    """The answer of one call of the Kubernetes client, within TIMEOUT_S. Raises Trouble."""
    try:
        return call(**{"_request_timeout": TIMEOUT_S, **arguments})
    except ApiException as error:
        raise Trouble(f"{subject}: {error.status} {error.reason}{_message(error)}") from error
    except (OSError, HTTPError) as error:
        raise Trouble(f"the API server does not answer: {error}") from error


def _message(error: ApiException) -> str:
    """The API server's own words, with a colon before them; "" when it sent none."""
    try:
        message = json.loads(error.body or "{}")["message"]
    except (ValueError, TypeError, KeyError):
        return ""
    return f": {message[:MESSAGE_CHARS_MAX]}" if isinstance(message, str) and message else ""


class Objects:
    """The objects in one namespace, or in all (`namespace` None)."""

    def __init__(self, api: client.CustomObjectsApi, namespace: str | None) -> None:
        self._api = api
        self.namespace = namespace

    @classmethod
    def connect(
        cls, *, kubeconfig: str | None, context: str | None, namespace: str | None, everywhere: bool = False
    ) -> "Objects":
        """Connect by kubeconfig, as kubectl finds it; the default namespace is the context's."""
        try:
            config.load_kube_config(config_file=kubeconfig, context=context)
            contexts, active = config.list_kube_config_contexts(config_file=kubeconfig)
        except config.ConfigException as error:
            raise Trouble(f"no usable kubeconfig: {error}") from error
        chosen = next((one for one in contexts if one["name"] == context), active)
        own = namespace or chosen["context"].get("namespace") or "default"
        return cls(client.CustomObjectsApi(), None if everywhere else own)

    def list(self, kind: Kind) -> Sequence[Mapping[str, Any]]:
        """All objects of a kind, by namespace and name."""
        coordinates = {"group": naming.GROUP, "version": naming.VERSION, "plural": kind.plural}
        if self.namespace is None:
            answer = self._ask(self._api.list_cluster_custom_object, **coordinates)
        else:
            answer = self._ask(self._api.list_namespaced_custom_object, namespace=self.namespace, **coordinates)
        return sorted(answer["items"], key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"]))

    def get(self, kind: Kind, name: str) -> Mapping[str, Any]:
        """One object. Raises Trouble if it does not exist."""
        return self._ask(self._api.get_namespaced_custom_object, **self._one(kind, name))

    def annotate(self, kind: Kind, name: str, annotations: Mapping[str, str | None]) -> Mapping[str, Any]:
        """Merge annotations into an object (None removes one); returns the object afterwards."""
        body = {"metadata": {"annotations": dict(annotations)}}
        return self._ask(self._api.patch_namespaced_custom_object, body=body, **self._one(kind, name))

    def scale(self, kind: Kind, name: str, replicas: int) -> Mapping[str, Any]:
        """Scale through the scale subresource, as `kubectl scale` does, so that the same right is enough."""
        body = {"spec": {"replicas": replicas}}
        return self._ask(self._api.patch_namespaced_custom_object_scale, body=body, **self._one(kind, name))

    def _one(self, kind: Kind, name: str) -> dict[str, str]:
        if self.namespace is None:
            raise Trouble("a single object needs one namespace: give --namespace instead of --all-namespaces")
        return {
            "group": naming.GROUP,
            "version": naming.VERSION,
            "plural": kind.plural,
            "namespace": self.namespace,
            "name": name,
        }

    @staticmethod
    def _ask(call: Callable[..., object], **arguments: object) -> Mapping[str, Any]:
        answer = ask(call, str(arguments.get("name") or arguments["plural"]), **arguments)
        if not isinstance(answer, Mapping):
            raise Trouble(f"the API server answered with a {type(answer).__name__}, not an object")
        return answer
