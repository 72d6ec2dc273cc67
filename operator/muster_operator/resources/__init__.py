"""Builders of the Kubernetes objects of our kinds: from owner and spec to complete manifests. Pure.

Entry points: `resources.cluster.children`, `resources.group.children`, `resources.token_secret`, `resources.surplus`.
"""
