"""The parts of a pod that users may set on both kinds: metadata, resources, placement, identity.

A typed subset with Kubernetes' own names and meanings, passed through to the pod as written. Nothing else can be set:
an embedded PodSpec would bring thousands of fields, most of which break what Muster promises.
"""

from typing import Final

from muster_operator.api.fields import Struct, prop
from muster_operator.api.schema import Boolean, Integer, IntOrText, ListOf, MapOf, Rule, Text, choice

NAME: Final = Text(
    max_length=253,
    min_length=1,
    pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    pattern_text="must be a lower-case DNS name",
)
LABEL_VALUE: Final = Text(
    max_length=63,
    pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    pattern_text="must be a label value",
)
QUANTITY_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
QUANTITY: Final = IntOrText(
    max_length=20,
    pattern=QUANTITY_PATTERN,
    pattern_text="must be a quantity such as 500m or 2Gi",
    name="quantity",
)
_AMOUNTS = Struct((
    prop("cpu", QUANTITY, "Processor cores, such as 500m or 2."),
    prop("memory", QUANTITY, "Bytes of memory, such as 512Mi."),
    prop("ephemeral-storage", QUANTITY, "Bytes of the node's own disk, such as 1Gi."),
))  # fmt: skip
RESOURCES: Final = Struct((
    prop("requests", _AMOUNTS, "Resources that the scheduler reserves."),
    prop("limits", _AMOUNTS, "Largest amount that the container may use."),
))  # fmt: skip

_NOT_OURS = Rule(
    cel="self.all(key, !key.startsWith('app.kubernetes.io/') && !key.startsWith('muster.dev/'))",
    message="keys may not start with `app.kubernetes.io/` or `muster.dev/`: the operator writes those",
    holds=lambda labels: not any(key.startswith(("app.kubernetes.io/", "muster.dev/")) for key in labels),
)
LABELS: Final = MapOf(values=LABEL_VALUE, max_properties=50, rules=(_NOT_OURS,))
ANNOTATIONS: Final = MapOf(
    values=Text(max_length=4096),
    max_properties=50,
    rules=(
        Rule(
            cel="self.all(key, !key.startsWith('muster.dev/'))",
            message="keys may not start with `muster.dev/`: the operator writes those",
            holds=lambda annotations: not any(key.startswith("muster.dev/") for key in annotations),
        ),
    ),
)
NODE_SELECTOR: Final = MapOf(values=LABEL_VALUE, max_properties=20)
PULL_POLICY: Final = choice("Always", "IfNotPresent", "Never")
IMAGE: Final = Text(
    max_length=500,
    min_length=1,
    pattern=r"^[^\s]+$",
    pattern_text="must be an image reference without blanks",
)
PULL_SECRETS: Final = ListOf(
    items=Struct((prop("name", NAME, "Name of a Secret in this namespace.", required=True),)),
    max_items=10,
    keys=("name",),
)

_VALUES = ListOf(items=Text(max_length=63), max_items=20)
_EXPRESSIONS = ListOf(
    items=Struct((
        prop("key", Text(max_length=317), "Label key.", required=True),
        prop("operator", choice("In", "NotIn", "Exists", "DoesNotExist"), "Relation of key and values.", required=True),
        prop("values", _VALUES, "Needed by In and NotIn."),
    )),
    max_items=20,
)  # fmt: skip
LABEL_SELECTOR: Final = Struct((
    prop("matchLabels", MapOf(values=LABEL_VALUE, max_properties=20), "Labels that must all match."),
    prop("matchExpressions", _EXPRESSIONS, "Requirements that must all hold."),
))  # fmt: skip
_NODE_EXPRESSIONS = ListOf(
    items=Struct((
        prop("key", Text(max_length=317), "Node label or field.", required=True),
        prop(
            "operator",
            choice("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
            "Relation of key and values.",
            required=True,
        ),
        prop("values", _VALUES, "Needed by all but Exists and DoesNotExist."),
    )),
    max_items=20,
)  # fmt: skip
_NODE_TERM = Struct((
    prop("matchExpressions", _NODE_EXPRESSIONS, "By node labels."),
    prop("matchFields", _NODE_EXPRESSIONS, "By node fields, such as metadata.name."),
))  # fmt: skip
_WEIGHT = Integer(low=1, high=100)
_NODE_AFFINITY = Struct((
    prop(
        "requiredDuringSchedulingIgnoredDuringExecution",
        Struct((
            prop("nodeSelectorTerms", ListOf(items=_NODE_TERM, max_items=10, min_items=1), "One must match.",
                 required=True),
        )),
        "Requirements that a node must meet.",
    ),
    prop(
        "preferredDuringSchedulingIgnoredDuringExecution",
        ListOf(
            items=Struct((
                prop("weight", _WEIGHT, "Weight of the preference.", required=True),
                prop("preference", _NODE_TERM, "The preference.", required=True),
            )),
            max_items=10,
        ),
        "Preferred nodes.",
    ),
))  # fmt: skip
_POD_TERM = Struct((
    prop("labelSelector", LABEL_SELECTOR, "Which pods count."),
    prop("namespaceSelector", LABEL_SELECTOR, "In which namespaces; absent: this one."),
    prop("namespaces", ListOf(items=NAME, max_items=20), "In which namespaces, by name."),
    prop("topologyKey", Text(max_length=317, min_length=1), "Node label that defines a topology domain.",
         required=True),
))  # fmt: skip
_POD_AFFINITY = Struct((
    prop("requiredDuringSchedulingIgnoredDuringExecution", ListOf(items=_POD_TERM, max_items=10), "Required terms."),
    prop(
        "preferredDuringSchedulingIgnoredDuringExecution",
        ListOf(
            items=Struct((
                prop("weight", _WEIGHT, "Weight of the preference.", required=True),
                prop("podAffinityTerm", _POD_TERM, "The preference.", required=True),
            )),
            max_items=10,
        ),
        "Preferred terms.",
    ),
))  # fmt: skip
AFFINITY: Final = Struct((
    prop("nodeAffinity", _NODE_AFFINITY, "By properties of the node."),
    prop("podAffinity", _POD_AFFINITY, "Pods to run beside."),
    prop("podAntiAffinity", _POD_AFFINITY, "Pods to run away from."),
))  # fmt: skip
TOLERATIONS: Final = ListOf(
    items=Struct((
        prop("key", Text(max_length=317), "Taint key; absent: every taint, with operator Exists."),
        prop("operator", choice("Equal", "Exists"), "Relation of key and value."),
        prop("value", Text(max_length=63), "Taint value, with operator Equal."),
        prop("effect", choice("NoSchedule", "PreferNoSchedule", "NoExecute"), "Taint effect; absent: all."),
        prop("tolerationSeconds", Integer(low=0, high=2**31 - 1), "How long NoExecute is tolerated; absent: for ever."),
    )),
    max_items=20,
)  # fmt: skip
TOPOLOGY_SPREAD: Final = ListOf(
    items=Struct((
        prop("maxSkew", Integer(low=1, high=1000), "Largest difference in pods between domains.", required=True),
        prop("topologyKey", Text(max_length=317, min_length=1), "Node label that defines a topology domain.",
             required=True),
        prop("whenUnsatisfiable", choice("DoNotSchedule", "ScheduleAnyway"), "What to do if it cannot be satisfied.",
             required=True),
        prop("labelSelector", LABEL_SELECTOR, "Which pods count; absent: the pods of this object."),
        prop("minDomains", Integer(low=1, high=1000), "Smallest number of topology domains."),
        prop("nodeAffinityPolicy", choice("Honor", "Ignore"), "Whether excluded nodes count."),
        prop("nodeTaintsPolicy", choice("Honor", "Ignore"), "Whether tainted nodes count."),
    )),
    max_items=10,
    keys=("topologyKey", "whenUnsatisfiable"),
)  # fmt: skip

_ID = Integer(low=0, high=2**31 - 1)
_SE_LINUX = Struct(tuple(
    prop(part, Text(max_length=253), f"SELinux {part}.") for part in ("user", "role", "type", "level")
))  # fmt: skip
SECCOMP: Final = Struct((
    prop("type", choice("RuntimeDefault", "Localhost", "Unconfined"), "Which profile.", required=True),
    prop("localhostProfile", Text(max_length=253), "A file on the node, with type Localhost."),
))  # fmt: skip
SECURITY_IDS: Final = (
    prop("runAsUser", _ID, "User id of the processes."),
    prop("runAsGroup", _ID, "Group id of the processes."),
    prop("runAsNonRoot", Boolean(), "Refuse to start as root."),
    prop("seccompProfile", SECCOMP, "System calls that are allowed."),
    prop("seLinuxOptions", _SE_LINUX, "SELinux label."),
)
POD_SECURITY: Final = Struct((
    *SECURITY_IDS,
    prop("fsGroup", _ID, "Group that owns the volumes."),
    prop("fsGroupChangePolicy", choice("OnRootMismatch", "Always"), "When ownership of volumes is changed."),
    prop("supplementalGroups", ListOf(items=_ID, max_items=20), "Further group ids."),
))  # fmt: skip
