"""docs/crds.md and docs/operator-conditions.md as text, from the same source as the CRDs."""

import json
from collections.abc import Iterator

from muster_operator.api.conditions import ClusterCondition, GroupCondition, KafkaObjectCondition, Reason, Word
from muster_operator.api.fields import Property, Record, Struct
from muster_operator.api.kinds import KINDS, Kind
from muster_operator.api.schema import UNSET, ListOf, Rule, Shape
from muster_operator.naming import API_VERSION

_REWRITE = "`python -m tests.operator.api.generate`"


def _records(path: str, shape: Shape) -> Iterator[tuple[str, Record]]:
    """Every record at or below `shape` with its path in the users' notation, parents first."""
    if isinstance(shape, ListOf):
        yield from _records(f"{path}[]", shape.items)
    if isinstance(shape, Record):
        yield path, shape
        for item in shape.properties:
            yield from _records(f"{path}.{item.name}", item.shape)


def _default(item: Property) -> str:
    if item.required:
        return "must be set"
    if item.default is UNSET:
        return ""
    return f"`{json.dumps(item.default)}`" if item.default not in ({}, []) else ""


def _rules(shape: Shape) -> tuple[Rule, ...]:
    """Rules of a field's value; those of a record are listed below its own table."""
    if isinstance(shape, Record):
        return ()
    return (*shape.rules, *(_rules(shape.items) if isinstance(shape, ListOf) else ()))


def _table(path: str, record: Record) -> Iterator[str]:
    yield f"### `{path}`"
    yield ""
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    messages = [rule.message for rule in record.rules]
    for item in record.properties:
        yield f"| `{item.name}` | {item.shape.type_text} | {_default(item)} | {item.text} |"
        messages += [rule.message for rule in _rules(item.shape)]
    yield ""
    for message in messages:
        yield f"* {message}"
    if messages:
        yield ""


def _parts(path: str, shape: Shape, known: dict[int, str]) -> Iterator[str]:
    """Rows of everything below a part of Kubernetes' own API; a part that occurs twice is written out once."""
    if isinstance(shape, ListOf):
        yield from _parts(f"{path}[]", shape.items, known)
    if not isinstance(shape, Struct):
        return
    for item in shape.properties:
        here = f"{path}.{item.name}"
        inner = item.shape.items if isinstance(item.shape, ListOf) else item.shape
        same = known.setdefault(id(inner), here) if isinstance(inner, Struct) else here
        text = item.text if same == here else f"{item.text} As `{same}`."
        yield f"| `{here}` | {item.shape.type_text} | {_default(item)} | {text} |"
        if same == here:
            yield from _parts(here, item.shape, known)


def _deep_messages(shape: Shape) -> Iterator[str]:
    """Messages of the rules inside a field's value; those of the value itself are listed below the record's table."""
    if isinstance(shape, ListOf):
        yield from _deep_messages(shape.items)
    if isinstance(shape, Struct):
        for item in shape.properties:
            yield from (rule.message for rule in _rules(item.shape))
            yield from _deep_messages(item.shape)


def _allow_list(path: str, record: Record) -> Iterator[str]:
    """The fields that may be set in the parts of a record that are Kubernetes' own."""
    yield f"#### Parts of `{path}`"
    yield ""
    yield "Everything that may be set in them, with Kubernetes' meaning. Anything else is refused by kubectl, and"
    yield "dropped by the API server when another program sends it."
    yield ""
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    known: dict[int, str] = {}
    for item in record.properties:
        inner = item.shape.items if isinstance(item.shape, ListOf) else item.shape
        same = known.setdefault(id(inner), item.name) if isinstance(inner, Struct) else item.name
        if same == item.name:
            yield from _parts(item.name, item.shape, known)
        else:
            yield f"| `{item.name}` | {item.shape.type_text} | | As `{same}`. |"
    yield ""
    for message in dict.fromkeys(one for item in record.properties for one in _deep_messages(item.shape)):
        yield f"* {message}"
    yield ""


def _kind(kind: Kind) -> Iterator[str]:
    yield f"## {kind.kind} (`{kind.short}`)"
    yield ""
    yield kind.text
    yield ""
    for root, cls in (("spec", kind.spec), ("status", kind.status)):
        for path, record in _records(root, Record(cls)):
            yield from _table(path, record)
            if path == "spec.template":
                yield from _allow_list(path, record)


def crds_text() -> str:
    lines = [
        "# The custom resources, field by field",
        "",
        f"`{API_VERSION}`. `kubectl explain cc.spec` (`cg`, `mt`, `mu`) shows the same. Below each",
        "table: what the API server checks beyond types and bounds, with its error messages. Parts of a pod",
        "(affinity, resources, probes, ...) have Kubernetes' own fields and meanings; those of `spec.template` are an",
        "allow-list, written out below its table.",
        "",
        f"This file is written from the types' source ({_REWRITE}); a test holds the two together.",
        "",
    ]
    for kind in KINDS:
        lines += _kind(kind)
    return "\n".join(lines).rstrip() + "\n"


def _words(title: str, words: type[Word], head: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"| {head} | |"
    yield "|---|---|"
    for word in words:
        yield f"| `{word.value}` | {word.text} |"
    yield ""


def conditions_text() -> str:
    lines = [
        "# Conditions and reasons",
        "",
        "Every condition has `status` True, False or Unknown. Unknown means that it could not be observed, never",
        "that it does not exist. `reason` is one of the words below, `message` a sentence; Events and logs use the",
        "same words.",
        "",
        f"This file is written from the operator's source ({_REWRITE}); a test holds the two together.",
        "",
        *_words("Conditions of a CoordinatorCluster", ClusterCondition, "type"),
        *_words("Conditions of a ConsumerGroup", GroupCondition, "type"),
        *_words("Conditions of a Topic and of a User", KafkaObjectCondition, "type"),
        *_words("Reasons", Reason, "reason"),
    ]
    return "\n".join(lines).rstrip() + "\n"
