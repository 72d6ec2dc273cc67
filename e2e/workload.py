"""A small stateful workload from our own image, for tests of the node itself.

A pod counts its starts on its volume and answers over HTTP: `/` with its name, its number of starts and the caller's
address, so that one answer shows who answered, whether the volume came back, and where the caller was.
"""

from typing import Any

PORT = 8080
SERVER = f"""
import http.server, os, signal, sys, threading
starts = "/data/starts"
with open(starts, "a") as file:
    file.write("x")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{{os.environ['POD']}} {{os.path.getsize(starts)}} {{self.client_address[0]}}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("", {PORT}), Answer)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
print("started as", os.getuid(), flush=True)
server.serve_forever()
"""
LABELS = {"app": "probe"}
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def objects(image: str, replicas: int) -> list[dict[str, Any]]:
    """StatefulSet `probe` with a volume a pod, its headless Service `peers`, NodePort Service `front`, and a PDB."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "peers"},
            "spec": {"clusterIP": "None", "selector": LABELS, "ports": [{"name": "http", "port": PORT}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "front"},
            "spec": {"type": "NodePort", "selector": LABELS, "ports": [{"name": "http", "port": PORT}]},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "probe"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
        },
        _stateful_set(image, replicas),
    ]


def _stateful_set(image: str, replicas: int) -> dict[str, Any]:
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", SERVER],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": RESTRICTED,
    }
    pod_security = {
        "runAsNonRoot": True,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "probe"},
        "spec": {
            "serviceName": "peers",
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "containers": [container],
                    "securityContext": pod_security,
                    "terminationGracePeriodSeconds": 5,
                },
            },
            "volumeClaimTemplates": [claim],
        },
    }
