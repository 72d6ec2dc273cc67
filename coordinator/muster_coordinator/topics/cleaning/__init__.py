"""Log cleaning (compaction): which bytes a partition's sealed segments keep, as Kafka's cleaner decides it. Pure.

`plan` says what may be cleaned now, `key_map` remembers the last offset of each key, `transactions` which batches
belong to aborted transactions, `batches` what is left of one batch, `rounds` does a round with them. Files, threads
and pace belong to the host (`storage.cleaning`, `replica.maintenance.cleaner`).
"""
