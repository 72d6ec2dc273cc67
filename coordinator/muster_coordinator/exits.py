"""Exit codes of `muster server` and `muster dev` (docs/configuration.md), and what a supervisor may do about each.

0 and 75 need no alarm; a restart does not help after 65, 70 and 78.
"""

OK = 0
"""Drained and stopped, or asked to stop at once."""
BUG = 1
"""An invariant of ours is broken (traceback on standard error). Restart it: the replica recovers from its log."""
CORRUPTION = 65
"""Stored bytes fail their check and a torn write cannot be the reason, or the folder belongs to another cluster. Must
not be restarted: an administrator has to look at it."""
UNAVAILABLE = 69
"""An address cannot be bound, or the data folder is in use by another process."""
STORAGE = 70
"""A write or fsync failed. The kernel may have lost data that it had not written, so the process must not continue."""
DEADLINE = 75
"""The drain did not finish within `shutdown.grace.ms`; the replica stopped nevertheless."""
CONFIG = 78
"""The configuration is not valid; the message names the key."""
