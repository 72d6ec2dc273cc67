"""Limits of this room."""

from typing import Final

TRACKED_MAX: Final = 10_000
"""Rates that are kept for one kind of quota, of those who used it last. A name that a client chooses itself has a rate
of its own where a default quota is for each client id, so there may be as many as somebody likes. A rate has up to
twelve samples: some 2 KB. Who is forgotten begins anew."""
QUOTA_WINDOWS: Final = 11
"""Kafka's `quota.window.num`: ten windows that have passed, and the one that runs."""
QUOTA_WINDOW_SECONDS: Final = 1
"""Kafka's `quota.window.size.seconds`."""
WINDOWS_MAX: Final = 1_000
WINDOW_SECONDS_MAX: Final = 3_600
THROTTLE_MS_MAX: Final = 2**31 - 1
"""What an answer can say."""
DELAYED_CLOSES_MAX: Final = 1_000
"""Connections of addresses above their rate that are kept open until their throttle time is over. Of more the last is
closed at once: each is a socket."""
