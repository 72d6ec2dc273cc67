"""Remembers objects that the API server stores in another form than our manifest, with the same meaning.

Problem: `drift` compares by value and knows quantities, but an API server may normalise more. Then each pass would find
drift that no apply removes, write for ever and block every restart. Mechanism: if the stored object still differs right
after an apply, the difference is remembered; while manifest and stored object stay as they were then, the object counts
as covered.

In memory only: after a restart each such object is applied once more.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster_operator.drift import MANIFEST_HASH_ANNOTATION, difference, manifest_hash, projection

Object = Mapping[str, Any]
Json = Any
_OBJECTS_MAX: Final = 50_000


class Settled:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, str], tuple[Object, Json]] = {}

    def applied(self, manifest: Object, stored: Object) -> None:
        """`stored` is the server's answer to the apply of `manifest`."""
        identity = _identity(stored)
        if difference(stored, manifest) is None:
            self._known.pop(identity, None)
            return
        if len(self._known) >= _OBJECTS_MAX:
            self._known.clear()
        self._known[identity] = (manifest, projection(stored, manifest))

    def as_intended(self, live: Object) -> Object:
        """`live` with our manifest's values where the server is known to store them in another form; otherwise
        unchanged."""
        known = self._known.get(_identity(live))
        if known is None:
            return live
        manifest, made = known
        annotations = (live.get("metadata") or {}).get("annotations") or {}
        same = annotations.get(MANIFEST_HASH_ANNOTATION) == manifest_hash(manifest)
        if not same or projection(live, manifest) != made:
            return live
        intended: Object = _overlaid(live, manifest)
        return intended


def _overlaid(live: Json, manifest: Json) -> Json:
    if isinstance(live, Mapping) and isinstance(manifest, Mapping):
        return {**live, **{key: _overlaid(live.get(key), wanted) for key, wanted in manifest.items()}}
    return manifest


def _identity(live: Object) -> tuple[str, str, str, str]:
    metadata = live["metadata"]
    return str(live["kind"]), metadata["namespace"], metadata["name"], metadata["uid"]
