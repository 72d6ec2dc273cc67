"""`kubectl muster`: what `kubectl get` and `describe` do not say in one look, and a restart that waits.

Reads and writes only our own kinds through the caller's kubeconfig; talks to no coordinator and needs no operator code:
everything shown is in the objects' status, so it is as old as the operator's last look (`Unknown` stays unknown).
"""
