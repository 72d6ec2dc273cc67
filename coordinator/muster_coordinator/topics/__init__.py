"""Embedded topics: which batches may enter a partition's log, the state of its producers, where the log begins.

`machine` is the contract with the host; `partition.TopicPartition` implements it with `validation` (one batch),
`in_flight` (idempotent producers), `retention` and `log_commands` (replicated moves of the log start, also used by
offsets partitions). The records are stored by `storage`. Why validation is as it is:
docs/adr/0004-produce-validation.md.
"""
