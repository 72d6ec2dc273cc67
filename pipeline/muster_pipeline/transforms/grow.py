"""Numpy arrays that grow with the number of keys: one slot per key, filled with a neutral value."""

from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)


class Grow(Generic[Scalar]):
    """`values[: size]` are in use. Capacity doubles, so growth costs amortised O(1) per key."""

    __slots__ = ("_fill", "values")

    def __init__(self, fill: Scalar) -> None:
        self._fill = fill
        self.values: npt.NDArray[Scalar] = np.full(1024, fill, dtype=fill.dtype)

    def ensure(self, size: int) -> npt.NDArray[Scalar]:
        """The array, with at least `size` slots."""
        if size > len(self.values):
            grown: npt.NDArray[Scalar] = np.full(max(size, 2 * len(self.values)), self._fill, dtype=self.values.dtype)
            grown[: len(self.values)] = self.values
            self.values = grown
        return self.values
