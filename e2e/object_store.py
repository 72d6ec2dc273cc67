"""An S3 API in a pod (versitygw, from `more_images`), behind which the pipeline's tests have their tables.

Who uses it in a pod has its keys from Secret `s3-keys`; a test process has them in its environment.
"""

from typing import Any

KEYS = {"AWS_ACCESS_KEY_ID": "muster-e2e", "AWS_SECRET_ACCESS_KEY": "never-in-a-log-77d0"}
PORT = 7070
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def endpoint(namespace: str) -> dict[str, str]:
    """Where it is, as variables of an environment."""
    return {
        "AWS_ENDPOINT_URL": f"http://s3.{namespace}.svc:{PORT}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }


def objects(pipeline: str, s3: str, bucket: str) -> list[dict[str, Any]]:
    """Of the two images: a pod with that bucket, whose objects outlive its container, and its Service."""
    labels = {"app": "s3"}
    mounted = [{"name": "objects", "mountPath": "/objects"}]
    pod: dict[str, Any] = {
        "securityContext": {"fsGroup": 10001, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "objects", "emptyDir": {}}],
        "initContainers": [
            {
                "name": "bucket", "image": pipeline, "imagePullPolicy": "Never", "volumeMounts": mounted,
                "command": ["mkdir", "-p", f"/objects/{bucket}", "/objects/of-versitygw"],
                "securityContext": RESTRICTED,
            }
        ],
        "containers": [
            {
                "name": "s3", "image": s3, "imagePullPolicy": "Never", "volumeMounts": mounted,
                "args": ["--port", f":{PORT}", "--quiet", "posix", "/objects"],
                "env": [
                    {"name": f"ROOT_{short}", "valueFrom": {"secretKeyRef": {"name": "s3-keys", "key": name}}}
                    for short, name in (("ACCESS_KEY", "AWS_ACCESS_KEY_ID"), ("SECRET_KEY", "AWS_SECRET_ACCESS_KEY"))
                ],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                "securityContext": RESTRICTED,
            }
        ],
    }  # fmt: skip
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s3", "labels": labels}, "spec": pod},
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s3"},
            "spec": {"selector": labels, "ports": [{"port": PORT}]},
        },
    ]  # fmt: skip
