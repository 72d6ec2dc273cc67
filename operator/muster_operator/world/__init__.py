"""What the operator saw in one pass, as values. Planning reads nothing else.

Absent and unknown are different things everywhere here: `None` inside a view says "looked, not there"; a view that is
`Unknown(reason)` says "could not look". No plan may act on an `Unknown` as if it were an absence.
"""
