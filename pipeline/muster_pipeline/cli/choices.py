"""Words that an option takes instead of a value of its kind."""

from typing import Final

SUBMIT: Final = "submit"
"""`--master`: whatever spark-submit says."""
LIVE: Final = "live"
"""`--heads`: asked of the cluster."""
