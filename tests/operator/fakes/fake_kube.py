"""An API server in memory: `ports.Kube` with the semantics that the operator relies on, and nothing else.

It has generations, resource versions that move only when something changes, server-side apply with field ownership by
manager, the status subresource of our kinds, uid preconditions, evictions under disruption budgets, graceful deletion
of
pods, and a watch. It has no schemas, no defaulting beyond a few fields, and no controllers (`fake_controllers`).

It is *verified*: `kube_contract` runs the same expectations against this and against a real kube-apiserver.
"""

import base64
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster_operator import naming
from muster_operator.errors import Conflict, NotServed, Refused, Transient

Object = dict[str, Any]
Key = tuple[str, str, str]
Path = tuple[Any, ...]
WORKLOADS = {"Deployment", "StatefulSet", "Rollout"}
WITH_STATUS = {"CoordinatorCluster", "ConsumerGroup", "Topic", "User", "Pod", "PodDisruptionBudget"} | WORKLOADS
WITH_GENERATION = {
    "CoordinatorCluster",
    "ConsumerGroup",
    "Topic",
    "User",
    "PodDisruptionBudget",
    "NetworkPolicy",
} | WORKLOADS
LIST_KEYS = (("name",), ("type",), ("uid",), ("port",))
SCALARS = frozenset({str, int, float, bool, type(None)})


def copied(value: Any) -> Any:
    """A copy of what JSON can hold; `copy.deepcopy` takes five times as long, and was a third of a pass."""
    if isinstance(value, dict):
        return {key: one if type(one) in SCALARS else copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(one if type(one) in SCALARS else copied(one) for one in value)
    assert isinstance(value, str | int | float | None), f"no JSON: {value!r}"
    return value


class FakeKube:
    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.calls: list[tuple[str, str, str]] = []
        """(verb, kind, name) of every request."""
        self.refuse: dict[tuple[str, str], str] = {}
        """(verb, kind) → what such a request is refused with."""
        self.undeclared = {"newerThanTheDefinition", "newerAsWell"}
        """Fields of a status that the definition, an older one, does not have: refused, as server-side apply does."""
        self.undefined: set[str] = set()
        """Kinds that no definition makes known."""
        self.blind: dict[str, set[str]] = {}
        """Namespace → kinds that may not be listed there."""
        self.silent: set[str] = set()
        """Namespaces whose lists get no answer."""
        self.watchers: list[Callable[[str, str, Object], None]] = []
        self._owned: dict[Key, dict[str, set[Path]]] = {}
        self._versions = itertools.count(1_000)
        self._uids = itertools.count(1)

    # -- ports.Kube --------------------------------------------------------------------------------------------------

    async def get(self, *, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        self.calls.append(("get", kind, name))
        if ("get", kind) in self.refuse:
            raise Refused("Forbidden", self.refuse["get", kind])
        found = self.objects.get((kind, namespace, name))
        return copied(found)

    async def list(
        self,
        *,
        api_version: str,
        kind: str,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        selector: str = "",
    ) -> Sequence[Object]:
        self.calls.append(("list", kind, namespace))
        if ("list", kind) in self.refuse:
            raise Refused("Forbidden", self.refuse["list", kind])
        if kind in self.undefined:
            raise NotServed("NotServed", f"list {kind}: no such kind")
        if kind in self.blind.get(namespace, ()):
            raise Refused("Forbidden", f"list {kind}: HTTP 403 Forbidden")
        if namespace in self.silent:
            raise Transient("ApiUnreachable", f"list {kind}: no answer from the API server")
        return [
            copied(live)
            for (its_kind, its_namespace, _), live in sorted(self.objects.items())
            if its_kind == kind
            and namespace in ("", its_namespace)
            and (labels or {}).items() <= (live["metadata"].get("labels") or {}).items()
            and selects(selector, live["metadata"].get("labels") or {})
        ]

    async def apply(self, manifest: Mapping[str, Any]) -> Object:
        key = self._record("apply", manifest)
        if key[0] in self.undefined:
            raise Refused("Http404", f"apply {key[0]} {key[2]}: HTTP 404 Http404")
        if ("apply", key[0]) in self.refuse:
            raise Refused("Forbidden", self.refuse["apply", key[0]])
        body = copied({k: v for k, v in manifest.items() if k != "status" or manifest["kind"] not in WITH_STATUS})
        live = self.objects.get(key)
        wanted_uid = body["metadata"].pop("uid", None)
        if wanted_uid is not None and (live is None or live["metadata"]["uid"] != wanted_uid):
            raise Conflict("Conflict", "uid mismatch")
        self._refuse_taken_ports(key, body)
        return self._apply(key, body, naming.FIELD_MANAGER)

    async def apply_status(self, manifest: Mapping[str, Any]) -> Object | None:
        key = self._record("apply_status", manifest)
        live = self.objects.get(key)
        if live is None:
            return None
        if manifest["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise Conflict("Conflict", "the object has been modified")
        if ("apply_status", key[0]) in self.refuse:
            raise Refused("Forbidden", self.refuse["apply_status", key[0]])
        for field in sorted(self.undeclared & set(manifest["status"])):
            said = f".status.{field}: field not declared in schema"
            raise Transient("InternalError", f"failed to create typed patch object ({key[1]}/{key[2]}): {said}")
        body = {k: copied(manifest[k]) for k in ("apiVersion", "kind", "metadata", "status")}
        body["metadata"] = {k: body["metadata"][k] for k in ("name", "namespace")}
        return self._apply(key, body, naming.STATUS_MANAGER)

    async def create(self, manifest: Mapping[str, Any]) -> bool:
        key = self._record("create", manifest)
        if ("create", key[0]) in self.refuse:
            raise Refused("Forbidden", self.refuse["create", key[0]])
        if key in self.objects:
            return False
        self.put(copied(dict(manifest)))
        return True

    async def replace(self, manifest: Mapping[str, Any]) -> Object:
        key = self._record("replace", manifest)
        live = self.objects.get(key)
        if live is None:
            raise Refused("NotFound", f"{key} does not exist")
        if live["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise Conflict("Conflict", "the object has been modified")
        return self._store(key, copied(dict(manifest)))

    async def patch(self, manifest: Mapping[str, Any]) -> bool:
        key = self._record("patch", manifest)
        live = self.objects.get(key)
        if live is None:
            return False
        if ("patch", key[0]) in self.refuse:
            raise Refused("Forbidden", self.refuse["patch", key[0]])
        if manifest["metadata"].get("uid", live["metadata"]["uid"]) != live["metadata"]["uid"]:
            raise Conflict("Conflict", "uid mismatch")
        version = live["metadata"]["resourceVersion"]
        if manifest["metadata"].get("resourceVersion", version) != version:
            raise Conflict("Conflict", "the object has been modified")
        new = _patched(copied(live), manifest)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            self.remove(*key)
        else:
            self._store(key, new)
        return True

    async def scale(self, *, api_version: str, kind: str, namespace: str, name: str, replicas: int) -> bool:
        return self._change("scale", kind, namespace, name, {"spec": {"replicas": replicas}})

    async def restart(self, *, api_version: str, kind: str, namespace: str, name: str, at: str) -> bool:
        annotations = {naming.RESTART_ANNOTATION: at}
        template = {"template": {"metadata": {"annotations": annotations}}}
        return self._change(
            "restart", kind, namespace, name, {"spec": {"restartAt": at} if kind == "Rollout" else template}
        )

    async def delete(
        self, *, api_version: str, kind: str, namespace: str, name: str, uid: str, at_once: bool = False
    ) -> bool:
        self.calls.append(("delete", kind, name))
        if ("delete", kind) in self.refuse:
            raise Refused("Forbidden", self.refuse["delete", kind])
        live = self.objects.get((kind, namespace, name))
        if live is None or live["metadata"]["uid"] != uid:
            return False
        if at_once:
            self.remove(kind, namespace, name)
        else:
            self._end(live)
        return True

    async def evict(self, *, namespace: str, pod: str, uid: str) -> bool:
        self.calls.append(("evict", "Pod", pod))
        live = self.objects.get(("Pod", namespace, pod))
        if live is None or live["metadata"]["uid"] != uid:
            return True
        if not self._budget_allows(live):
            return False
        self._end(live)
        return True

    async def secret_value(self, *, namespace: str, name: str, key: str) -> str | None:
        found = await self.get(api_version="v1", kind="Secret", namespace=namespace, name=name)
        value = ((found or {}).get("data") or {}).get(key)
        return None if value is None else base64.b64decode(value).decode()

    # -- for tests and fake controllers ------------------------------------------------------------------------------

    def writes(self) -> Sequence[tuple[str, str, str]]:
        """Requests that may change something, except the Lease's."""
        return [one for one in self.calls if one[0] not in ("get", "list") and one[1] != "Lease"]

    def put(self, manifest: Object) -> Object:
        """Create or overwrite, as somebody other than the operator would."""
        key = _key(manifest)
        if key not in self.objects:
            manifest["metadata"]["uid"] = f"uid-{next(self._uids)}"
        else:
            manifest["metadata"]["uid"] = self.objects[key]["metadata"]["uid"]
        if manifest["kind"] == "Secret":
            data = {k: base64.b64encode(v.encode()).decode() for k, v in manifest.pop("stringData", {}).items()}
            manifest["data"] = {**manifest.get("data", {}), **data}
        return self._store(key, manifest)

    def edit(self, kind: str, namespace: str, name: str, change: Callable[[Object], None]) -> Object:
        """Change one object in place, as somebody else."""
        live = copied(self.objects[kind, namespace, name])
        change(live)
        return self._store((kind, namespace, name), live)

    def end(self, kind: str, namespace: str, name: str) -> None:
        """Delete it, as kubectl does: an object with finalizers stays until they are taken away."""
        self._end(self.objects[kind, namespace, name])

    def remove(self, kind: str, namespace: str, name: str, *, cascade: bool = True) -> None:
        """Gone at once, with everything that it controls (the garbage collector's work; `cascade` False: before it)."""
        live = self.objects.pop((kind, namespace, name), None)
        if live is None:
            return
        self._owned.pop((kind, namespace, name), None)
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("DELETED", live)
        for child in list(self.objects.values()) if cascade else ():
            references = child["metadata"].get("ownerReferences") or ()
            if any(one["uid"] == live["metadata"]["uid"] for one in references):
                self.remove(*_key(child))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _record(self, verb: str, manifest: Mapping[str, Any]) -> Key:
        key = _key(manifest)
        self.calls.append((verb, key[0], key[2]))
        return key

    def _change(self, verb: str, kind: str, namespace: str, name: str, patch: Object) -> bool:
        """One field of an object that is somebody else's."""
        self.calls.append((verb, kind, name))
        if (verb, kind) in self.refuse:
            raise Refused("Forbidden", self.refuse[verb, kind])
        live = self.objects.get((kind, namespace, name))
        if live is None:
            return False
        self._store((kind, namespace, name), _patched(copied(live), patch))
        return True

    def _refuse_taken_ports(self, key: Key, body: Object) -> None:
        """As the API server does for a Service, whichever namespace the other one is in."""
        others = [one for at, one in self.objects.items() if at[0] == "Service" and at != key]
        taken = {port.get("nodePort") for one in others for port in (one.get("spec") or {}).get("ports", ())}
        wanted = (body.get("spec") or {}).get("ports", ()) if key[0] == "Service" else ()
        for port in wanted:
            if port.get("nodePort") in taken - {None}:
                said = f"Invalid value: {port['nodePort']}: provided port is already allocated"
                raise Refused("Invalid", f"patch Service {key[2]}: HTTP 422 Invalid: spec.ports[0].nodePort: {said}")

    def _apply(self, key: Key, body: Object, manager: str) -> Object:
        live = self.objects.get(key)
        owned = self._owned.setdefault(key, {})
        mine = set(_paths(body))
        others = {path for name, paths in owned.items() if name != manager for path in paths}
        given_up = owned.get(manager, set()) - mine - others
        owned[manager] = mine
        merged = copied(live) if live is not None else {}
        merged = _merged(merged, body)
        for path in _to_remove(given_up, {path for paths in owned.values() for path in paths}):
            _remove(merged, path)
        if live is None:
            merged["metadata"]["uid"] = f"uid-{next(self._uids)}"
        return self._store(key, merged)

    def _store(self, key: Key, new: Object) -> Object:
        old = self.objects.get(key)
        metadata = new["metadata"]
        if old is not None and _content(old) == _content(new):
            return copied(old)
        if key[0] in WORKLOADS:
            new.setdefault("spec", {}).setdefault("replicas", 1)
        if key[0] in WITH_GENERATION:
            changed = old is None or _intent(old) != _intent(new)
            metadata["generation"] = (old["metadata"]["generation"] if old else 0) + changed
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[key] = new
        self._tell("ADDED" if old is None else "MODIFIED", new)
        return copied(new)

    def _end(self, live: Object) -> None:
        """Delete: a pod that a node runs goes through termination, a claim waits for its pod, anything else is gone."""
        if live["metadata"].get("finalizers"):
            if "deletionTimestamp" not in live["metadata"]:
                self.edit(*_key(live), lambda one: one["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
            return
        on_node = live["kind"] == "Pod" and (live.get("spec") or {}).get("nodeName")
        if on_node or live["kind"] == "PersistentVolumeClaim":
            if "deletionTimestamp" not in live["metadata"]:
                self.edit(*_key(live), lambda one: one["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
            return
        self.remove(*_key(live))

    def _budget_allows(self, pod: Object) -> bool:
        namespace = pod["metadata"]["namespace"]
        for (kind, its_namespace, _), budget in self.objects.items():
            wanted = (budget.get("spec") or {}).get("selector", {}).get("matchLabels", {})
            if kind != "PodDisruptionBudget" or its_namespace != namespace or not _matches(pod, wanted):
                continue
            covered = [one for one in self.objects.values() if one["kind"] == "Pod" and _matches(one, wanted)]
            healthy = [one for one in covered if _is_ready(one)]
            if not _is_ready(pod) and budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
                continue
            expected = self._expected(pod, len(covered))
            if len(healthy) - 1 < expected - int(budget["spec"].get("maxUnavailable", 1)):
                return False
        return True

    def _expected(self, pod: Object, found: int) -> int:
        for reference in pod["metadata"].get("ownerReferences") or ():
            owner = self.objects.get((reference["kind"], pod["metadata"]["namespace"], reference["name"]))
            if owner is not None:
                return int(owner["spec"].get("replicas", found))
        return found

    def _tell(self, change: str, live: Object) -> None:
        for watcher in list(self.watchers):
            watcher(change, live["kind"], copied(live))


def _key(manifest: Mapping[str, Any]) -> Key:
    return manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def selects(selector: str, labels: Mapping[str, str]) -> bool:
    """The API's labelSelector: `a=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, with commas between them."""
    for part in re.split(r",(?![^(]*\))", selector) if selector else ():
        if found := re.fullmatch(r"(\S+) (in|notin) \(([^)]*)\)", part):
            key, how, values = found[1], found[2], found[3].split(",")
            if (labels.get(key) in values) != (how == "in"):
                return False
        elif "=" in part:
            key, _, value = part.partition("=")
            if labels.get(key) != value:
                return False
        elif (part.lstrip("!") in labels) == part.startswith("!"):
            return False
    return True


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions) and (
        "deletionTimestamp" not in pod["metadata"]
    )


def _matches(live: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return labels.items() <= (live["metadata"].get("labels") or {}).items()


def _content(live: Mapping[str, Any]) -> Object:
    metadata = {k: v for k, v in live["metadata"].items() if k not in ("resourceVersion", "generation")}
    metadata.pop("creationTimestamp", None)
    return {**live, "metadata": metadata}


def _intent(live: Mapping[str, Any]) -> Object:
    return {k: v for k, v in live.items() if k not in ("metadata", "status")}


def _list_key(items: Sequence[Any]) -> tuple[str, ...] | None:
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    for key in LIST_KEYS:
        values = [tuple(item.get(one) for one in key) for item in items]
        if all(value[0] is not None for value in values) and len(set(values)) == len(values):
            return key
    return None


def _paths(body: Any, at: Path = ()) -> list[Path]:
    """Leaves of an apply configuration, list items by their key."""
    if at in {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}:
        return []
    if isinstance(body, Mapping):
        return [path for k, v in body.items() for path in _paths(v, (*at, k))] if body else [at]
    if isinstance(body, list) and (key := _list_key(body)):
        return [p for item in body for p in _paths(item, (*at, (key, tuple(item.get(one) for one in key))))]
    return [at]


def _merged(live: Any, body: Any) -> Any:
    if isinstance(live, dict) and isinstance(body, Mapping):
        return {**live, **{k: _merged(live.get(k), v) for k, v in body.items()}}
    if isinstance(live, list) and isinstance(body, list) and (key := _list_key(body)) and _list_key(live) == key:
        old = {tuple(one.get(k) for k in key): one for one in live}
        new = {tuple(one.get(k) for k in key): one for one in body}
        return [_merged(old[name], new[name]) if name in new else old[name] for name in old] + [
            new[name] for name in new if name not in old
        ]
    return copied(body)


def _patched(live: Any, patch: Any) -> Any:
    """A JSON merge patch: maps are merged, null takes a key away, anything else replaces."""
    if not isinstance(patch, Mapping):
        return copied(patch)
    found = dict(live) if isinstance(live, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _patched(found.get(key), value)
    return found


def _to_remove(given_up: set[Path], kept: set[Path]) -> list[Path]:
    """`given_up`, with a list item as a whole where nobody owns anything of it any more; items before their leaves."""
    found = set()
    for path in given_up:
        items = [path[: at + 1] for at, step in enumerate(path) if isinstance(step, tuple)]
        dead = (item for item in items if not any(one[: len(item)] == item for one in kept))
        found.add(next(dead, path))
    return sorted(found, key=len)


def _remove(live: Any, path: Path) -> None:
    """Remove the leaf at `path`, and list items of which only the key is left."""
    for step in path[:-1]:
        live = _step(live, step)
        if live is None:
            return
    last = path[-1]
    if isinstance(last, tuple):
        found = _step(live, last)
        if found is not None:
            live.remove(found)
    elif isinstance(live, dict):
        live.pop(last, None)


def _step(live: Any, step: Any) -> Any:
    if isinstance(step, tuple):
        key, name = step
        return next((one for one in live or () if tuple(one.get(k) for k in key) == name), None)
    return live.get(step) if isinstance(live, dict) else None
