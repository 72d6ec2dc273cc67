"""Kubeconfigs for `http_api`, with a token in a file of its own, as kubelets rotate it."""

import json
from pathlib import Path

from muster_operator.kube.login import Login


def login_to(address: str, folder: Path, token: str = "first") -> Login:
    """By a kubeconfig in `folder`, whose token is read from `folder/token`."""
    (folder / "token").write_text(token)
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    (folder / "kubeconfig").write_text(
        json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [context],
            "clusters": [{"name": "x", "cluster": {"server": address}}],
            "users": [{"name": "x", "user": {"tokenFile": str(folder / "token")}}],
        })
    )  # fmt: skip
    return Login(str(folder / "kubeconfig"))
