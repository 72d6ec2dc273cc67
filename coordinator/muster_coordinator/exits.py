"""Exit codes of `muster server` and `muster dev` (docs/configuration.md): what a supervisor may do about each.

0 and 75 are worth no alarm; 65, 70 and 78 will not heal by starting again.
"""

OK = 0
"""Drained and stopped, or asked to stop at once."""
BUG = 1
"""An invariant of ours is broken (traceback on standard error). Starting again is right: the log is what counts."""
CORRUPTION = 65
"""Stored bytes fail their check where a torn write cannot be the reason, or the folder is another cluster's. Never
started over: a person has to look."""
UNAVAILABLE = 69
"""An address cannot be bound, or the data folder is in use by another process."""
STORAGE = 70
"""A write or fsync failed; what the kernel still holds of it may be lost, so the process must not go on."""
DEADLINE = 75
"""Draining did not finish within `shutdown.grace.ms`; stopped all the same."""
CONFIG = 78
"""The configuration cannot be used; the message names the key."""
