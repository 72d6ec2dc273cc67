"""What the operator observed in one pass, as values. Planning reads nothing else.

Absent and unknown differ everywhere here: `None` in a view means that it was read and does not exist; a view that is
`Unknown(reason)` means that it could not be read. No plan may act on `Unknown` as if it were an absence.
"""
