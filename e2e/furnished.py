"""A ConsumerGroup's template with every field that there is, for a node: what its pods need besides, and the template.

The program of the first container looks at what it was given before it consumes, so a pod that runs was given it.
"""

from typing import Any

NAME = "furnished"
CHECKED = (
    "import os, runpy, sys; "
    "[os.stat(path) for path in ('/shared/first', '/identity/token', '/identity/labels', '/scratch', '/state')]; "
    f"assert sys.argv[1:] == ['--group', '{NAME}'], sys.argv; "
    "assert os.environ['FURNISHED_COLOUR'] == 'green'; "
    "open('/state/starts', 'a').write('x'); open('/scratch/starts', 'a').write('x'); "
    "runpy.run_path('/program/consumer.py', run_name='__main__')"
)
IDLE = (
    "import signal, threading; done = threading.Event(); "
    "signal.signal(signal.SIGTERM, lambda *_: done.set()); done.wait()"
)
LOOK = ["python3", "-c", "import os; os.stat('/state/starts')"]
STARTED = {"exec": {"command": LOOK}, "timeoutSeconds": 10, "failureThreshold": 30}
"""A probe."""
LABELS, ANNOTATIONS = {"team": NAME}, {"example.com/owner": NAME}
NODES = {"kubernetes.io/os": "linux"}
PRIORITY = 1_000
TOLERATION = {"key": NAME, "operator": "Exists", "effect": "NoSchedule"}
PREFERENCE = {
    "weight": 1,
    "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}},
}


def objects() -> list[dict[str, Any]]:
    """The account, the settings and the priority that the template names. Its Secret for pulling is not there, which
    Kubernetes takes while the image is."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"COLOUR": "green"}},
        {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": NAME},
            "value": PRIORITY, "globalDefault": False, "preemptionPolicy": "Never", "description": "of a test",
        },
    ]  # fmt: skip


def template(simple: dict[str, Any], image: str) -> dict[str, Any]:
    """On top of the one that other groups have. Of all kinds of volumes only a CSI driver's is missing."""
    python = {"image": image, "imagePullPolicy": "Never"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mounts = {"shared": "/shared", "identity": "/identity", "scratch": "/scratch", "state": "/state"}
    return {
        **simple,
        "imagePullSecrets": [{"name": "of-a-registry"}],
        "command": ["python3", "-c", CHECKED],
        "args": ["--group", "$(KAFKA_GROUP_ID)"],
        "env": [{"name": "PLACE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "envFrom": [{"prefix": "FURNISHED_", "configMapRef": {"name": NAME}}],
        "ports": [{"name": "metrics", "containerPort": 9_000}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}},
        "startupProbe": {**STARTED, "periodSeconds": 1},
        "livenessProbe": {**STARTED, "periodSeconds": 10},
        "readinessProbe": {**STARTED, "periodSeconds": 5},
        "securityContext": {
            "runAsNonRoot": True, "fsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containerSecurityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
        "lifecycle": {"postStart": {"exec": {"command": ["python3", "-c", "open('/shared/hook', 'w')"]}},
                      "preStop": {"sleep": {"seconds": 1}}},
        "initContainers": [
            {"name": "first", **python, "command": ["python3", "-c", "open('/shared/first', 'w')"],
             "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]},
            {"name": "beside", **python, "restartPolicy": "Always", "command": ["python3", "-c", IDLE]},
        ],
        "sidecars": [{"name": "logs", **python, "command": ["python3", "-c", IDLE]}],
        "volumes": [
            *simple["volumes"],
            {"name": "shared", "emptyDir": {}},
            {"name": "identity", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        ],
        "volumeMounts": [
            *simple["volumeMounts"], *({"name": name, "mountPath": path} for name, path in mounts.items())
        ],
        "volumeClaimTemplates": [{"name": "state", "size": "1Gi"}],
        "volumeClaimRetention": "Delete",
        "labels": LABELS,
        "annotations": ANNOTATIONS,
        "nodeSelector": NODES,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}},
        "tolerations": [TOLERATION],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": NAME,
        "serviceAccountName": NAME,
    }  # fmt: skip
