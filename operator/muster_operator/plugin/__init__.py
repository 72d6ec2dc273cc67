"""`kubectl muster`: an overview that `kubectl get` and `describe` do not give, and manual operations.

Works with the caller's kubeconfig and rights. `status`, `describe` and `lag` show the objects' status, so they are as
old as the operator's last pass (`Unknown` stays unknown); `pause`, `resume`, `scale` and `restart` write into our
objects and wait until the operator's status confirms the change. What only the coordinators know (`lag` of one group,
`reset`, parts of `report`) is read by a command in one of their pods (`coordinators`). It reads no Secret.
"""
