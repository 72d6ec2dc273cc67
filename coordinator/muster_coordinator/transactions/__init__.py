"""The transaction coordinator of one partition of `__transaction_state`, as a pure state machine."""
