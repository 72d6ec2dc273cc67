"""An identity provider, played by a pod: it serves its public keys by https, and its tokens are signed here.

`SERVER` is run by the image's Python. What it serves and its certificate are files of a Secret; a provider with other
ones is another pod of the same name.
"""

import base64
import json
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from e2e.node.client import Client
from tests.certificates import Authority
from tests.security.test_oauth import jwk, token

NAME = "provider"
PORT = 8443
ISSUER = "https://provider.example.com/realms/shop"
AUDIENCE = "muster"
SERVER = """
import http.server, pathlib, ssl
class Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = pathlib.Path("/secret/keys.json").read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), Keys)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("/secret/tls.crt", "/secret/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


class Provider:
    """In the client's namespace. Its authority and its key are made anew by `moves`."""

    def __init__(self, client: Client, image: str) -> None:
        self._client = client
        self._image = image
        self._number = 0
        client.apply(
            {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
                "spec": {"selector": {"app": NAME}, "ports": [{"port": PORT}]},
            }
        )  # fmt: skip
        self.moves()

    @property
    def uri(self) -> str:
        return f"https://{NAME}.{self._client.namespace}.svc:{PORT}/keys"

    def moves(self) -> None:
        """To a machine with another certificate of another authority, and another key under another id."""
        self._number += 1
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        authority = Authority(f"provider {self._number}")
        issued = authority.issue("server", (f"{NAME}.{self._client.namespace}.svc",))
        keys = json.dumps({"keys": [jwk(self._key, self._id)]})
        self._client.kubectl("delete", "pod", NAME, "--ignore-not-found", "--grace-period=1")
        files = {"tls.crt": issued.pem, "tls.key": issued.key_pem(), "keys.json": keys}
        self._client.apply(_secret("provider-ca", {"ca.crt": authority.pem}), _secret(NAME, files), self._pod())
        self._client.kubectl("wait", "--for=condition=Ready", "--timeout=60s", f"pod/{NAME}", timeout_s=70)

    @property
    def _id(self) -> str:
        return f"key-{self._number}"

    def token(self, user: str, seconds: int = 600) -> tuple[str, float]:
        """A token, and when it ends, as librdkafka wants it."""
        now = int(time.time())
        told = {"iss": ISSUER, "aud": [AUDIENCE], "sub": user, "iat": now, "nbf": now, "exp": now + seconds}
        return token(self._key, "RS256", self._id, **told), float(now + seconds)

    def _pod(self) -> dict[str, Any]:
        container = {
            "name": "server", "image": self._image, "imagePullPolicy": "Never", "command": ["python3", "-c", SERVER],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            "volumeMounts": [{"name": "secret", "mountPath": "/secret", "readOnly": True}],
        }  # fmt: skip
        return {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "labels": {"app": NAME}},
            "spec": {
                "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
                "terminationGracePeriodSeconds": 1, "containers": [container],
                "volumes": [{"name": "secret", "secret": {"secretName": NAME, "defaultMode": 0o440}}],
            },
        }  # fmt: skip


def _secret(name: str, values: dict[str, str]) -> dict[str, Any]:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
