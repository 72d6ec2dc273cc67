"""Our kinds over the caller's kubeconfig: list, get, annotate. Every call has a time-out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from muster_operator import naming

TIMEOUT_S = 15.0


class Kind(NamedTuple):
    """One of our kinds: its plural, its short name, its singular."""

    plural: str
    short: str
    singular: str


CLUSTER = Kind("coordinatorclusters", "cc", "coordinatorcluster")
GROUP = Kind("consumergroups", "cg", "consumergroup")
KINDS = (CLUSTER, GROUP)


class Trouble(Exception):
    """The request cannot be answered; the text is for a person and holds no secret."""


def parse_reference(text: str) -> tuple[Kind, str]:
    """`cg/NAME` or `cc/NAME`, in any of the kinds' spellings. Trouble when it is neither."""
    kind_text, slash, name = text.partition("/")
    for kind in KINDS:
        if slash and name and kind_text.lower() in kind:
            return kind, name
    raise Trouble(f"{text!r} must be cg/NAME (a ConsumerGroup) or cc/NAME (a CoordinatorCluster)")


class Objects:
    """The API server, in one namespace or in all (`namespace` None)."""

    def __init__(self, api: client.CustomObjectsApi, namespace: str | None) -> None:
        self._api = api
        self.namespace = namespace

    @classmethod
    def connect(
        cls, *, kubeconfig: str | None, context: str | None, namespace: str | None, everywhere: bool
    ) -> "Objects":
        """By kubeconfig, as kubectl finds it; the namespace is the context's unless given."""
        try:
            config.load_kube_config(config_file=kubeconfig, context=context)
            _, active = config.list_kube_config_contexts(config_file=kubeconfig)
        except config.ConfigException as error:
            raise Trouble(f"no usable kubeconfig: {error}") from error
        own = namespace or active["context"].get("namespace") or "default"
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
        """One object. Trouble when it is not there."""
        return self._ask(self._api.get_namespaced_custom_object, **self._one(kind, name))

    def annotate(self, kind: Kind, name: str, annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """Merge annotations into an object; the object as it is then."""
        body = {"metadata": {"annotations": dict(annotations)}}
        return self._ask(self._api.patch_namespaced_custom_object, body=body, **self._one(kind, name))

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
        try:
            answer = call(**arguments, _request_timeout=TIMEOUT_S)
        except ApiException as error:
            subject = arguments.get("name") or arguments["plural"]
            raise Trouble(f"{subject}: {error.status} {error.reason}") from error
        except OSError as error:
            raise Trouble(f"the API server does not answer: {error}") from error
        if not isinstance(answer, Mapping):
            raise Trouble(f"the API server answered with a {type(answer).__name__}, not an object")
        return answer
