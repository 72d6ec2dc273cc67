"""Hand-written codecs of the five requests that a running consumer group sends: straight from bytes to
`groups.requests` values.

Each module gives `decoder(version)` and `encoder(version)`; `tests/wire` proves them equal to kio's entities for
every version. They keep the rules of `reader`: any byte string gives a value or WireError, within the frame's heap
budget.
"""
