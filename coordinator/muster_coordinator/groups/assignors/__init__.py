"""Kafka's client-side assignors as pure functions, and the embedded consumer protocol they speak.

A classic group's leader decides which member reads which partitions; the coordinator passes its plan through. The four
assignors here are run by a Python leader (through `muster consume`), replayed by the pipeline for what-if questions,
and compared by tests with the Java client's own classes. Pure: no I/O, no clock, no randomness; the same input gives
the same plan on every machine.
"""
