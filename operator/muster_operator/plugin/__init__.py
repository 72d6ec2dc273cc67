"""`kubectl muster`: what `kubectl get` and `describe` do not say in one look, and what is done by hand.

Works with the caller's kubeconfig and rights, and needs no operator code. `status`, `describe` and `lag` show what the
objects' status says, so they are as old as the operator's last look (`Unknown` stays unknown); `pause`, `resume`,
`scale` and `restart` write into our objects and wait for the operator's word. What only the coordinators know (`lag` of
one group, `reset`, parts of `report`) is asked in one of their pods (`coordinators`). It reads no Secret.
"""
