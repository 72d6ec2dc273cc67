"""Words with a special meaning as values of options."""

from enum import StrEnum
from typing import Final

SUBMIT: Final = "submit"
"""`--master submit`: use the master that spark-submit was given."""
LIVE: Final = "live"
"""`--log-end-offsets live`: ask the cluster for its log end offsets."""


class Form(StrEnum):
    """`--format`: how rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
