"""Limits of log cleaning."""

KEY_BYTES = 240
"""Memory of one key in a map: 64 of its bytes, 32 of its offset, and its share of a dict that has just grown, while the
smaller one still exists."""
BATCH_RECORDS_MAX = 65_536
"""A batch of more records stays as it is for ever. This must not depend on a setting: else its tombstones could go
before the values that they delete."""
KEYS_MEMORY_MIN = BATCH_RECORDS_MAX * KEY_BYTES
"""A round's map holds the keys of one batch at least, so each round gets on."""
SEGMENTS_MERGED_MAX = 64
"""Small segments that become one: a round holds no more of a group's names."""
OFFSETS_MERGED_MAX = 2**31 - 1
"""A position within a segment has 32 bits (`storage.segment_index`)."""
EMPTY_SPAN_MAX = 2**31 - 1
"""Offsets that one empty batch covers: its last offset delta has 32 bits."""
