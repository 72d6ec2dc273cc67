"""Limits of a recovery."""

from muster_coordinator.limits import PRODUCER_ID_BLOCK
from muster_coordinator.raft.core import TERM_MAX

TERMS_SKIPPED = 1 << 20
"""Terms between the highest that the folder has seen and the first of the new epoch. Elections are a second apart, so
the lost replicas would have needed twelve days without a leader to be in a later one. Clients compare terms, as leader
epochs: Kafka's never go back to an earlier one."""
PRODUCER_IDS_SKIPPED = 1 << 40
"""Producer ids between the next one that the folder knows of and the first of the new epoch: an id that the lost
replicas gave to a producer and that is given again would make two producers one. Kafka's ids have 63 bits."""
READ_BYTES = 4 << 20
"""Bytes of a log that are read at a time."""

assert TERM_MAX // TERMS_SKIPPED > 1_000, "so many recoveries are possible"
assert PRODUCER_IDS_SKIPPED > 1_000_000 * PRODUCER_ID_BLOCK
