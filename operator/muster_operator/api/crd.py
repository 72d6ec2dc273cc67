"""CustomResourceDefinitions as values, made from the dataclasses. crds/*.yaml are generated from them; a test compares.

Structural schemas, no conversion, one served and stored version. `status` is a subresource on both kinds, so that only
changes of the spec raise the generation, and so is `scale`, for kubectl scale and disruption budgets.
"""

from typing import Any

from muster_operator.api.fields import Record
from muster_operator.api.kind import name_rules
from muster_operator.api.kinds import Column, Kind
from muster_operator.api.schema import complete
from muster_operator.naming import GROUP, VERSION

Json = dict[str, Any]


def crd(kind: Kind) -> Json:
    subresources: Json = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "muster", "app.kubernetes.io/part-of": "muster"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short],
                "categories": ["muster"],
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": root_schema(kind)},
                }
            ],
        },
    }


def _column(column: Column) -> Json:
    found: Json = {"name": column.name, "type": column.type, "description": column.text, "jsonPath": column.path}
    return found | ({"priority": 1} if column.wide else {})


def root_schema(kind: Kind) -> Json:
    named = () if kind.name_length_max is None else name_rules(kind.name_length_max)
    rules = [rule.schema() for rule in (*named, *kind.rules)]
    return {
        "description": kind.text,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this representation."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": {"description": kind.spec_text, **complete(Record(kind.spec))},
            "status": {
                "description": "What the operator observed. Only the operator writes it.",
                **complete(Record(kind.status)),
                "default": kind.unseen,
            },
        },
        **({"x-kubernetes-validations": rules} if rules else {}),
    }
