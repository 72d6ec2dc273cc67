"""A Muster of one pod that lets nobody in without a password, over TLS, with Kafka's authorizer: an "external Kafka"
for the operator, which knows nothing of it but what a Topic, a User or a ConsumerGroup says.

`SERVER` is run by the image's Python: it writes the settings, makes the first user and becomes `muster server`.
"""

import base64
from typing import Any

from tests.certificates import Authority

NAME = "secured"
ADMIN = "admin"
PORT = 9093
SERVER = """
import os, pathlib, subprocess
data = pathlib.Path("/data")
settings = data / "server.properties"
settings.write_text('''
node.id=0
log.dirs=/data/folder
controller.quorum.voters=0@127.0.0.1:9094
muster.peer.listener=127.0.0.1:9094
listeners=CLIENT://0.0.0.0:9093
advertised.listeners=CLIENT://HOST:9093
listener.security.protocol.map=CLIENT:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
ssl.keystore.certificate.chain=/secret/tls.crt
ssl.keystore.key=/secret/tls.key
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
muster.probe.listener=0.0.0.0:8080
offsets.topic.num.partitions=4
muster.wal.file.bytes=16777216
'''.replace("HOST", os.environ["HOST"]).lstrip())
if not (data / "folder").exists():
    who = "SCRAM-SHA-512=[name=admin,password=${env:ADMIN_PASSWORD}]"
    subprocess.run(["muster", "format", "--config", str(settings), "--add-scram", who], check=True)
os.execvp("muster", ["muster", "server", "--config", str(settings)])
"""


def host(namespace: str) -> str:
    return f"{NAME}.{namespace}.svc.cluster.local"


def objects(namespace: str, image: str, password: str) -> list[dict[str, Any]]:
    """A Secret with the certificate, one with the operator's login, one with the authority, the Service, the pod."""
    authority = Authority("e2e")
    issued = authority.issue("server", (host(namespace),))
    login = {"username": ADMIN, "password": password}
    return [
        _secret("secured-server", {"tls.crt": issued.pem, "tls.key": issued.key_pem()}),
        _secret("kafka-ca", {"ca.crt": authority.pem}),
        _secret("operator-login", login),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME},
            "spec": {"selector": {"app": NAME}, "ports": [{"port": PORT}]},
        },
        _pod(namespace, image),
    ]


def _secret(name: str, values: dict[str, str]) -> dict[str, Any]:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def _pod(namespace: str, image: str) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", SERVER],
        "env": [
            {"name": "HOST", "value": host(namespace)},
            {
                "name": "ADMIN_PASSWORD",
                "valueFrom": {"secretKeyRef": {"name": "operator-login", "key": "password"}},
            },
        ],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "secret", "mountPath": "/secret", "readOnly": True},
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
            "enableServiceLinks": False,
            "containers": [container],
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "secret", "secret": {"secretName": "secured-server", "defaultMode": 0o440}},
            ],
        },
    }
