"""The state of a fold as bytes, so that a later run goes on where an earlier one ended.

Python's pickle, with everything taken out that could run code or tie it to a release of a library: arrays and tables
are plain bytes, samples and decoders are the reader's own, and what is read may be made of the values of this package
and of nothing else, which touches neither disk nor network. A hash stands in front. What it does not do: know whether
the state belongs to this log and to this code; whoever stores it says that (`job.states`).
"""

import hashlib
import io
import pickle
from typing import Any, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

from muster_pipeline.decode.origin import Damage
from muster_pipeline.transforms.fold import GroupDecoders, PartitionFold
from muster_pipeline.transforms.log_end_offsets import LogEndSamples

Untyped = Any
"""Of numpy's, whose type is in its bytes."""
_HASH_BYTES: Final = 32
_PACKAGE: Final = "muster_pipeline.transforms."
_SAMPLES: Final = "samples"
_DECODERS: Final = "decoders"
_DTYPES: Final = ("<i8", "|b1", "<i4", "<i2", "|i1")


class ForeignState(Exception):
    """These bytes are no state that can be gone on with."""


def packed(fold: PartitionFold) -> bytes:
    """The state after the last chunk, before `finish`."""
    target = io.BytesIO()
    _Pickler(target, pickle.DEFAULT_PROTOCOL).dump(fold)
    data = target.getvalue()
    return hashlib.sha256(data).digest() + data


def unpacked(data: bytes, log_ends: LogEndSamples, decoders: GroupDecoders) -> PartitionFold:
    """The fold in that state. Raises ForeignState."""
    told, body = data[:_HASH_BYTES], data[_HASH_BYTES:]
    if hashlib.sha256(body).digest() != told:
        raise ForeignState("the state has changed since it was written")
    try:
        found = _Unpickler(body, log_ends, decoders).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise ForeignState(f"the state cannot be read: {error}") from error
    if not isinstance(found, PartitionFold):
        raise ForeignState(f"the state is of a {type(found).__name__}")
    return found


def array(dtype: str, shape: tuple[int, ...], data: bytes) -> Untyped:
    """An array of numbers."""
    if dtype not in _DTYPES:
        raise ForeignState(f"an array of {dtype}")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def scalar(dtype: str, data: bytes) -> Untyped:
    """One number of numpy's."""
    return array(dtype, (1,), data)[0]


def rows(data: bytes) -> pa.Table:
    """A table of Arrow's."""
    with pa.ipc.open_stream(data) as source:
        return source.read_all()


_FUNCTIONS: Final = {"array": array, "scalar": scalar, "rows": rows}


class _Pickler(pickle.Pickler):
    @override
    def persistent_id(self, obj: Any) -> str | None:
        if isinstance(obj, LogEndSamples):
            return _SAMPLES
        return _DECODERS if isinstance(obj, GroupDecoders) else None

    @override
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray):
            return array, (obj.dtype.str, obj.shape, obj.tobytes())
        if isinstance(obj, np.generic):
            return scalar, (obj.dtype.str, obj.tobytes())
        if isinstance(obj, pa.Table):
            target = io.BytesIO()
            with pa.ipc.new_stream(target, obj.schema) as stream:
                stream.write_table(obj)
            return rows, (target.getvalue(),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, log_ends: LogEndSamples, decoders: GroupDecoders) -> None:
        super().__init__(io.BytesIO(data))
        self._own = {_SAMPLES: log_ends, _DECODERS: decoders}

    @override
    def persistent_load(self, pid: Any) -> Any:
        return self._own[pid]

    @override
    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in _FUNCTIONS:
            return _FUNCTIONS[name]
        if module == Damage.__module__ and name == Damage.__name__:
            return Damage
        if module.startswith(_PACKAGE) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise ForeignState(f"the state names {module}.{name}")
