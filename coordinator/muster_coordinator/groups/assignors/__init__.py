"""Kafka's client-side assignors as pure functions, and the embedded consumer protocol they speak.

A classic group's leader decides who reads what; the coordinator passes its plan through. The four assignors here are
what a Python leader runs (through `muster consume`), what the pipeline replays for what-if questions and what tests
compare with the Java client's own classes. Pure: no I/O, no clock, no randomness; the same input gives the same plan
on every machine.
"""
