"""Hand-written codecs of the five requests that a running consumer group sends: from bytes to `groups.requests` values
directly.

Each module has `decoder(version)` and `encoder(version)`; `tests/wire` compares them with kio's entities for every
version. They keep the rules of `reader`: any byte string gives a value or WireError, within the frame's heap budget.
"""
