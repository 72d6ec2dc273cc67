"""Embedded topics: what may enter a partition's log, what is remembered of its producers, where the log begins.

`machine` is the contract with the host; `partition.TopicPartition` implements it over `validation` (one batch),
`in_flight` (idempotent producers), `retention` and `log_commands` (replicated moves of the log start, used for offsets
partitions too). Records themselves live in `storage`. Why validation is what it is:
docs/adr/0004-produce-validation.md.
"""
