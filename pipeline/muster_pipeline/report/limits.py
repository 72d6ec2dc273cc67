"""How much one report shows. A fleet may have 100,000 groups, and a page with all of them cannot be read."""

from typing import Final

GROUPS_SHOWN_MAX: Final = 200
LAG_SERIES_MAX: Final = 12
"""Groups with a lag chart of their own: those that were furthest behind."""
HEAT_GROUPS_MAX: Final = 40
"""Groups of the heat-map: those in the newest troubles, then those that were furthest behind."""
HEAT_COLUMNS_MAX: Final = 24
SERIES_POINTS_MAX: Final = 240
"""Points of one chart; more minutes are merged into intervals, each with its highest value."""
REBALANCES_SHOWN_MAX: Final = 200
TIMELINE_GROUPS_MAX: Final = 30
BALANCE_SHOWN_MAX: Final = 50
WHATIF_SHOWN_MAX: Final = 50
EXPIRY_DAYS_MAX: Final = 42
EXPIRY_SHOWN_MAX: Final = 100
QUARANTINE_SHOWN_MAX: Final = 50
PARTITIONS_SHOWN_MAX: Final = 500
"""Of one group, on its own page."""
OWNED_SHOWN_MAX: Final = 60
"""Partitions whose owners are drawn."""
STALLS_SHOWN_MAX: Final = 50
TROUBLES_SHOWN_MAX: Final = 100
CAPACITY_SHOWN_MAX: Final = 50
STATUS_BYTES_MAX: Final = 8_192
"""One group's JSON: small enough for an object's status that holds other fields too."""
NAME_CHARS_SHOWN_MAX: Final = 80

assert LAG_SERIES_MAX <= HEAT_GROUPS_MAX <= GROUPS_SHOWN_MAX
