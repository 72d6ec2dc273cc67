"""The parts of a container that users may set for the consumers of a ConsumerGroup, under Kubernetes' names."""

from typing import Final

from muster_operator.api.fields import Struct, prop
from muster_operator.api.pod import NAME, SECURITY_IDS
from muster_operator.api.schema import Boolean, Integer, IntOrText, ListOf, Rule, Text, choice

KEY: Final = Text(max_length=253, min_length=1)
OPTIONAL: Final = prop("optional", Boolean(), "Whether it may be missing.")
_KEY_REF = Struct((prop("name", NAME, "Name of the object.", required=True),
                   prop("key", KEY, "Key in it.", required=True), OPTIONAL))  # fmt: skip
_VALUE_FROM = Struct(
    (
        prop("fieldRef", Struct((prop("fieldPath", KEY, "Such as metadata.name or status.podIP.", required=True),)),
             "A field of the pod."),
        prop("configMapKeyRef", _KEY_REF, "A key of a ConfigMap in this namespace."),
        prop("secretKeyRef", _KEY_REF, "A key of a Secret in this namespace."),
    ),
    rules=(
        Rule(
            cel="[has(self.fieldRef), has(self.configMapKeyRef), has(self.secretKeyRef)].exists_one(given, given)",
            message="`valueFrom` must name exactly one source",
            holds=lambda source: len(source) == 1,
        ),
    ),
)  # fmt: skip
ENV_NAME: Final = Text(
    max_length=128,
    min_length=1,
    pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$",
    pattern_text="must be the name of an environment variable",
)
ENV_VARIABLE: Final = Struct((
    prop("name", ENV_NAME, "Name of the variable.", required=True),
    prop("value", Text(max_length=32_768), "Its value."),
    prop("valueFrom", _VALUE_FROM, "Where its value comes from."),
))  # fmt: skip
_REF = Struct((prop("name", NAME, "Name of the object.", required=True), OPTIONAL))
ENV_FROM: Final = ListOf(
    items=Struct((
        prop("prefix", Text(max_length=128), "Prefix of each variable's name."),
        prop("configMapRef", _REF, "All keys of a ConfigMap."),
        prop("secretRef", _REF, "All keys of a Secret."),
    )),
    max_items=20,
)  # fmt: skip

_PORT = IntOrText(max_length=15, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
              pattern_text="must be a port number or name", name="port")  # fmt: skip
PORTS: Final = ListOf(
    items=Struct((
        prop("name", Text(max_length=15, min_length=1), "Name of the port."),
        prop("containerPort", Integer(low=1, high=65_535), "Port in the pod.", required=True),
        prop("protocol", choice("TCP", "UDP"), "Transport.", default="TCP"),
    )),
    max_items=10,
    keys=("containerPort", "protocol"),
)  # fmt: skip
_SECONDS = Integer(low=0, high=86_400)
_COUNT = Integer(low=1, high=1000)
PROBE: Final = Struct(
    (
        prop("exec", Struct((prop("command", ListOf(items=Text(max_length=4096), max_items=50), "Command.",
                                  required=True),)), "A command that ends with 0."),
        prop(
            "httpGet",
            Struct((
                prop("path", Text(max_length=1024), "Path."),
                prop("port", _PORT, "Port number or name.", required=True),
                prop("scheme", choice("HTTP", "HTTPS"), "Protocol."),
            )),
            "An HTTP request that is answered with 200 to 399.",
        ),
        prop("tcpSocket", Struct((prop("port", _PORT, "Number or name.", required=True),)), "A port that accepts."),
        prop("initialDelaySeconds", _SECONDS, "Delay before the first probe."),
        prop("periodSeconds", _COUNT, "Time between probes."),
        prop("timeoutSeconds", _COUNT, "Time-out of a probe."),
        prop("successThreshold", _COUNT, "Consecutive successes needed."),
        prop("failureThreshold", Integer(low=1, high=10_000), "Consecutive failures needed."),
    ),
    rules=(
        Rule(
            cel="[has(self.exec), has(self.httpGet), has(self.tcpSocket)].exists_one(given, given)",
            message="a probe must be exactly one of `exec`, `httpGet` and `tcpSocket`",
            holds=lambda probe: sum(how in probe for how in ("exec", "httpGet", "tcpSocket")) == 1,
        ),
    ),
)  # fmt: skip
_HANDLER = Struct(
    (
        prop("exec", Struct((prop("command", ListOf(items=Text(max_length=4096), max_items=50), "Command.",
                                  required=True),)), "A command."),
        prop(
            "httpGet",
            Struct((
                prop("path", Text(max_length=1024), "Path."),
                prop("port", _PORT, "Port number or name.", required=True),
                prop("scheme", choice("HTTP", "HTTPS"), "Protocol."),
            )),
            "An HTTP request.",
        ),
        prop("sleep", Struct((prop("seconds", Integer(low=1, high=3600), "So long.", required=True),)),
             "A wait (Kubernetes 1.30)."),
    ),
    rules=(
        Rule(
            cel="[has(self.exec), has(self.httpGet), has(self.sleep)].exists_one(given, given)",
            message="a hook of `lifecycle` must be exactly one of `exec`, `httpGet` and `sleep`",
            holds=lambda hook: sum(how in hook for how in ("exec", "httpGet", "sleep")) == 1,
        ),
    ),
)  # fmt: skip
LIFECYCLE: Final = Struct((
    prop("postStart", _HANDLER, "Right after the start, at the same time as the program."),
    prop("preStop", _HANDLER, "Before SIGTERM, within the pod's grace period."),
))  # fmt: skip
_CAPABILITIES = ListOf(items=Text(max_length=63, min_length=1), max_items=50)
CONTAINER_SECURITY: Final = Struct((
    *SECURITY_IDS,
    prop("allowPrivilegeEscalation", Boolean(), "Whether a process may gain more privileges."),
    prop("readOnlyRootFilesystem", Boolean(), "Whether the root file system is read-only."),
    prop(
        "capabilities",
        Struct((prop("add", _CAPABILITIES, "Added."), prop("drop", _CAPABILITIES, "Taken away."))),
        "Linux capabilities.",
    ),
))  # fmt: skip
