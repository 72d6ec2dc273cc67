"""The states of a transactional id, numbered and named as Kafka's (KIP-98).

Two of Kafka's names never stand in this log: Dead is an id whose tombstone is in flight, and PrepareEpochFence an
abort by the coordinator that is in flight; both live only in the coordinator's memory.
"""

from enum import IntEnum


class State(IntEnum):
    """As written in the log's `TransactionStatus`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


NAMES = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
    State.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
BY_NAME = {name: state for state, name in NAMES.items()}
IN_LOG = frozenset(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The outcome is decided, and the markers are on their way."""
AT_REST = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""No transaction is open: the id may expire."""
BEFORE = {
    State.EMPTY: AT_REST,
    State.ONGOING: AT_REST | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: AT_REST | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
}
"""State -> the states from which an id may come to it. From transaction version 2 on a client may abort where nothing
was added yet, so PrepareAbort follows the states at rest, too."""
