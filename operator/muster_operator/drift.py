"""Does the live object already have every field that we want? The answer decides whether an apply is sent at all.

A server-side apply that changes nothing still costs the API server a request and shows up in its audit log; a converged
fleet must cost none. So a manifest is applied only if `drifted` finds a reason:

1. It was never applied by us (no hash annotation), or with other content: then fields may have to be removed, which a
   comparison of the wanted fields cannot detect.
2. A wanted field is missing or different in the live object: another client changed it.

Additional fields in the live object are defaults of the API server or belong to other field managers, and are no drift.
Below keys that hold quantities, values are compared as quantities (the server stores `1000m` as `1`). Lists whose items
have `name` (or `type`, `port`, `uid`) are compared by that key, since other managers may add items. For other ways in
which the API server normalises values, the caller remembers what the server stored for the last identical manifest
(`projection`).

Pure. Source: Kubernetes API conventions, server-side apply; style_operator "free idempotence is not free of requests".
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

MANIFEST_HASH_ANNOTATION: Final = "muster.dev/manifest-hash"
_QUANTITY_PARENTS: Final = frozenset({"requests", "limits", "capacity"})
_QUANTITY_KEYS: Final = frozenset({"sizeLimit"})
_LIST_KEYS: Final = (("name",), ("type",), ("uid",), ("port", "protocol"), ("ip",))
_SUFFIXES: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18), "Ki": Decimal(2**10),
    "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip

Json = Any
"""A value as JSON decodes it."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MAPPINGS: Final = (dict, Mapping)
"""A `dict` is found out at once: nearly all that is asked of here is one, and what is abstract is asked slowly."""
Object = Mapping[str, Any]
_ABSENT: Final = object()
"""No value that JSON has."""


def manifest_hash(manifest: Object) -> str:
    """16 hex digits over the canonical JSON of `manifest` without the hash annotation."""
    return hashlib.sha256(_canonical(_without_hash(manifest)).encode()).hexdigest()[:16]


def with_hash(manifest: Object) -> dict[str, Any]:
    """`manifest` with its hash as an annotation, in the form that is sent."""
    plain = _without_hash(manifest)
    metadata = dict(plain.get("metadata", {}))
    metadata["annotations"] = {**metadata.get("annotations", {}), MANIFEST_HASH_ANNOTATION: manifest_hash(plain)}
    return {**plain, "metadata": metadata}


def drifted(live: Object | None, desired: Object) -> str | None:
    """Why `desired` must be applied, or None if `live` already has it."""
    if live is None:
        return "it does not exist"
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    known = annotations.get(MANIFEST_HASH_ANNOTATION)
    if known is None:
        return "it was not applied by this operator before"
    if known != manifest_hash(desired):
        return "the wanted content changed"
    at = difference(live, _without_hash(desired))
    return None if at is None else f"another client changed {at}"


def covers(live: Object, desired: Object) -> bool:
    """True when every field of `desired` is in `live` with an equal value."""
    return difference(live, desired) is None


def difference(live: Json, desired: Json, path: str = "", parent: str = "") -> str | None:
    """Path of the first field of `desired` that `live` lacks or has with another value; None if there is none."""
    if type(desired) not in _SCALARS and isinstance(desired, _MAPPINGS):
        if not desired and live is None:
            return None  # an empty map is dropped by the server
        if not isinstance(live, _MAPPINGS):
            return path or "."
        for key, wanted in desired.items():
            have = live.get(key, _ABSENT)
            if _plainly_same(have, wanted) or (have is _ABSENT and _empty(wanted)):
                continue
            here = f"{path}.{key}" if path else str(key)
            if have is _ABSENT:
                return here
            found = difference(have, wanted, here, key if not _is_quantity(parent, key) else "quantity")
            if found is not None:
                return found
        return None
    if type(desired) not in _SCALARS and isinstance(desired, Sequence) and not isinstance(desired, str):
        return _list_difference(live, desired, path)
    if parent == "quantity" and _same_quantity(live, desired):
        return None
    return None if _same_scalar(live, desired) else path


def _plainly_same(live: Json, desired: Json) -> bool:
    """Most of a converged object is found out here, at a quarter of the price: one value, or equal scalars of one
    type. False says nothing."""
    return live is desired or (type(live) is type(desired) and type(desired) in _SCALARS and bool(live == desired))


def _is_quantity(parent: str, key: str) -> bool:
    return parent in _QUANTITY_PARENTS or key in _QUANTITY_KEYS


def _list_difference(live: Json, desired: Sequence[Any], path: str) -> str | None:
    if not desired and live is None:
        return None
    if not isinstance(live, Sequence) or isinstance(live, str):
        return path
    key = _list_key(desired)
    if key is None:
        if len(live) != len(desired):
            return path
        for number, (have, want) in enumerate(zip(live, desired, strict=True)):
            if not _plainly_same(have, want) and (at := difference(have, want, f"{path}[{number}]")) is not None:
                return at
        return None
    by_key = {_named(item, key): item for item in live if isinstance(item, _MAPPINGS)}
    for item in desired:
        name = _named(item, key)
        label = f"{path}[{item[key[0]]}]"
        if name not in by_key:
            return label
        found_at = difference(by_key[name], item, label)
        if found_at is not None:
            return found_at
    return None


def _named(item: Object, key: tuple[str, ...]) -> Json:
    return item.get(key[0]) if len(key) == 1 else tuple(item.get(one) for one in key)


def _list_key(items: Sequence[Any]) -> tuple[str, ...] | None:
    if not items or not all(isinstance(item, _MAPPINGS) for item in items):
        return None
    for key in _LIST_KEYS:
        if all(item.get(key[0]) is not None for item in items):
            names = [_named(item, key) for item in items]
            if len(set(names)) == len(names):
                return key
    return None


def projection(live: Json, desired: Json) -> Json:
    """The part of `live` below the fields of `desired`: what the API server stored for our manifest."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {key: projection(live.get(key), wanted) for key, wanted in desired.items()}
    return live


def same_status(live: Object, desired: Object) -> bool:
    """True if `live` equals `desired`, apart from conditions of types that we do not write."""
    ours = {condition.get("type") for condition in desired.get("conditions", ())}
    kept = [one for one in live.get("conditions", ()) if one.get("type") in ours]
    by_type = sorted(kept, key=lambda one: str(one.get("type")))
    wanted = sorted(desired.get("conditions", ()), key=lambda one: str(one.get("type")))
    rest = {key: value for key, value in live.items() if key != "conditions"}
    return by_type == wanted and rest == {key: value for key, value in desired.items() if key != "conditions"}


def _without_hash(manifest: Object) -> dict[str, Any]:
    metadata = dict(manifest.get("metadata", {}))
    annotations = {k: v for k, v in metadata.get("annotations", {}).items() if k != MANIFEST_HASH_ANNOTATION}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**manifest, "metadata": metadata}


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _empty(value: Json) -> bool:
    """The server drops null, {} and []. A wanted 0, false or "" is a value: if absent, it is missing."""
    return value is None or (isinstance(value, Mapping | list | tuple) and len(value) == 0)


def _same_scalar(live: Json, desired: Json) -> bool:
    if isinstance(live, bool) or isinstance(desired, bool):
        return live is desired
    return bool(live == desired)


def _same_quantity(live: Json, desired: Json) -> bool:
    left, right = quantity(live), quantity(desired)
    return left is not None and left == right


def quantity(text: Json) -> Decimal | None:
    """A Kubernetes quantity (`500m`, `10Gi`, `2`, `1e3`) as a number; None for any other text."""
    if isinstance(text, bool):
        return None
    raw = str(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if raw.endswith(suffix):
            raw, scale = raw[: -len(suffix)], _SUFFIXES[suffix]
            break
    else:
        scale = Decimal(1)
    try:
        return Decimal(raw) * scale
    except InvalidOperation:
        return None
