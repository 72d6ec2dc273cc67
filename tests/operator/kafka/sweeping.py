"""Tidying up after kafka-python, which leaves sockets to the collector."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def swept() -> Iterator[None]:
    """What kafka-python leaves open is collected here, quietly, and not in some later test that would fail of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            yield
        finally:
            gc.collect()
