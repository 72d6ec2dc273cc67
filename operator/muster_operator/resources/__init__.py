"""Builders of the Kubernetes objects that belong to our kinds: owner and spec in, complete manifests out. Pure.

Entry points: `resources.cluster.children`, `resources.group.children`, `resources.token_secret`, `resources.surplus`.
"""
