"""Kubernetes quantities of bytes, in the forms that our own rules compare."""

import re
from decimal import Decimal
from typing import Final

QUANTITY_TEXT: Final = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
"""Plain numbers and decimal or binary multiples; no exponents, no negative numbers, no milli-bytes."""
_UNITS: Final = {
    "": 1,
    **{unit: 1000 ** (power + 1) for power, unit in enumerate("kMGTP")},
    **{f"{unit}i": 1024 ** (power + 1) for power, unit in enumerate("KMGTP")},
}


def bytes_of(text: str) -> int:
    """Whole bytes, rounded up as Kubernetes does. Raises `ValueError` unless it matches `QUANTITY_TEXT`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kMGTP]|[KMGTP]i)?", text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity of bytes")
    exact = Decimal(match.group(1)) * _UNITS[match.group(2) or ""]
    return int(exact.to_integral_value(rounding="ROUND_CEILING"))
