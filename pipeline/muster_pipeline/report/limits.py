"""How much one report shows. A fleet may have 100,000 groups; a page that holds them all helps nobody."""

from typing import Final

GROUPS_SHOWN_MAX: Final = 200
LAG_SERIES_MAX: Final = 12
"""Groups with a lag chart of their own: those furthest behind at any time."""
SERIES_POINTS_MAX: Final = 240
"""Points of one chart; more minutes are merged, keeping each interval's highest value."""
REBALANCES_SHOWN_MAX: Final = 200
TIMELINE_GROUPS_MAX: Final = 30
BALANCE_SHOWN_MAX: Final = 50
WHATIF_SHOWN_MAX: Final = 50
EXPIRY_DAYS_MAX: Final = 42
EXPIRY_SHOWN_MAX: Final = 100
QUARANTINE_SHOWN_MAX: Final = 50
STALLS_SHOWN_MAX: Final = 50
STATUS_BYTES_MAX: Final = 8_192
"""One group's JSON: fits beside other things in an object's status."""
NAME_CHARS_SHOWN_MAX: Final = 80

assert LAG_SERIES_MAX <= GROUPS_SHOWN_MAX
