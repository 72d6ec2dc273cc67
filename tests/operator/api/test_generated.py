"""The checked-in definitions and tables are what the types say, and the definitions are what an API server needs."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.api.crd import crd, root_schema
from muster_operator.api.kinds import CONSUMER_GROUP, KINDS, Kind

from tests.operator.api.generate import ROOT, generated

GENERATED = generated()
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_a_file_is_what_the_types_say(path: Path) -> None:
    assert path.read_text() == GENERATED[path], "run: python -m tests.operator.api.generate"


@kinds
def test_a_definition_read_back_is_the_same_value(kind: Kind) -> None:
    assert yaml.safe_load((ROOT / "crds" / f"{kind.plural}.yaml").read_text()) == crd(kind)


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below `schema`, with its path."""
    yield path, schema
    for name, item in schema.get("properties", {}).items():
        yield from nodes(item, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


@kinds
def test_no_reference_leaves_its_namespace(kind: Kind) -> None:
    """Whoever may write objects here could read another namespace's Secrets by the operator's rights. Selectors of pods
    (affinity, NetworkPolicy) refer to no object."""
    spec = root_schema(kind)["properties"]["spec"]
    assert [path for path, _ in nodes(spec) if path.rsplit(".", 1)[-1] == "namespace"] == []


@kinds
def test_everything_has_a_bound(kind: Kind) -> None:
    """The API server estimates the cost of CEL rules by the bounds; without one it assumes megabytes and refuses."""
    unbounded = []
    for path, node in nodes(root_schema(kind)):
        if path in ("", ".apiVersion", ".kind", ".metadata"):
            continue
        what = node.get("type", "int-or-string")
        bounds = {
            "string": "enum" in node or "maxLength" in node,
            "int-or-string": "maxLength" in node,
            "integer": {"minimum", "maximum"} <= set(node),
            "array": "maxItems" in node and "x-kubernetes-list-type" in node,
            "object": "properties" in node or "maxProperties" in node,
            "boolean": True,
        }
        if not bounds[what]:
            unbounded.append(path)
    assert not unbounded


@kinds
def test_every_field_is_explained(kind: Kind) -> None:
    silent = [
        f"{path}.{name}"
        for path, node in nodes(root_schema(kind))
        for name, item in node.get("properties", {}).items()
        if path != ".metadata"
        and f"{path}.{name}" != ".metadata"
        and not item.get("description", "").endswith((".", ")"))
    ]
    assert not silent


@kinds
def test_a_defaulted_field_is_not_required(kind: Kind) -> None:
    for path, node in nodes(root_schema(kind)):
        for name in node.get("required", ()):
            assert "default" not in node["properties"][name], f"{path}.{name}"


@kinds
def test_a_field_that_may_not_change_cannot_be_unset_and_set_again(kind: Kind) -> None:
    """`self == oldSelf` is asked only while both exist, so such a field is required or has a default."""
    for path, node in nodes(root_schema(kind)):
        for name, item in node.get("properties", {}).items():
            rules = [rule["rule"] for rule in item.get("x-kubernetes-validations", ())]
            if "self == oldSelf" in rules:
                assert "default" in item or name in node["required"], f"{path}.{name}"


@kinds
def test_a_list_map_names_keys_that_its_items_require(kind: Kind) -> None:
    for path, node in nodes(root_schema(kind)):
        for key in node.get("x-kubernetes-list-map-keys", ()):
            item = node["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], f"{path}: {key}"


def test_messages_of_rules_are_sentences_with_the_field_in_back_quotes() -> None:
    for kind in KINDS:
        for path, node in nodes(root_schema(kind)):
            for rule in node.get("x-kubernetes-validations", ()):
                assert "must" in rule["message"] or "may" in rule["message"], path
                assert "`" in rule["message"] or rule["message"].startswith("a volume"), path


@kinds
def test_bounds_survive_the_api_servers_floats(kind: Kind) -> None:
    """It reads bounds as float64: one that is not exact there may leave int64, and then every write is refused."""
    bounds = [node[word] for _, node in nodes(root_schema(kind)) for word in ("minimum", "maximum") if word in node]
    assert bounds
    assert all(int(float(bound)) == bound for bound in bounds)


def test_columns_of_one_name_say_the_same_of_all_kinds() -> None:
    """`kubectl get muster` prints all: READY may not be a count here and a word there."""
    kinds = [{column.name: (column.path, column.type) for column in kind.columns} for kind in KINDS]
    cluster, group, topic, user = kinds
    assert {"Ready", "Reason", "Age"} <= cluster.keys() & group.keys()
    assert {"Applied", "Reason", "Age"} <= topic.keys() & user.keys()
    for one, other in itertools.combinations(kinds, 2):
        shared = one.keys() & other.keys()
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}


def test_everything_that_a_template_takes_stands_in_the_table() -> None:
    """docs/crds.md is the allow-list; a part that is used twice is written out once and referred to."""
    text = (ROOT / "docs" / "crds.md").read_text()
    (template,) = [node for path, node in nodes(root_schema(CONSUMER_GROUP)) if path == ".spec.template"]
    table = text[text.index("#### Parts of `spec.template`") :].split("\n### ")[0]
    rows = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}
    named = {row.replace("[]", "").rpartition(".")[2] for row in rows}
    own = set(template["properties"])
    for path, node in nodes(template):
        for name in node.get("properties", {}):
            assert name in named | own or path == ".volumeClaimTemplates[]", (
                f"{path}.{name}"
            )  # it has a table of its own
    for path in (
        "initContainers[].restartPolicy", "sidecars[].volumeMounts", "lifecycle.preStop", "volumes[].projected.sources",
        "volumes[].csi.driver", "volumes[].ephemeral.volumeClaimTemplate.spec",
    ):  # fmt: skip
        assert path in rows
    assert not {"hostPath", "nfs", "hostNetwork", "privileged"} & named
