"""What both kinds share: how a stored object becomes a spec, and the rules for its name."""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from muster_operator.api.errors import InvalidObject
from muster_operator.api.fields import Record
from muster_operator.api.schema import Rule, checked

S = TypeVar("S")

CLUSTER_NAME_LENGTH_MAX: Final = 40
"""Children's names add up to 18 characters (`-<listener of 15>-0`); names of Services and label values have at most
63."""
GROUP_NAME_LENGTH_MAX: Final = 52
"""The StatefulSet controller adds 11 characters for the value of label controller-revision-hash, which has at most
63."""
_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"


def name_rules(length_max: int) -> tuple[Rule, ...]:
    """Rules at the root of a kind; `holds` gets the name."""
    return (
        Rule(
            cel=f"size(self.metadata.name) <= {length_max}",
            message=f"`metadata.name` may have at most {length_max} characters: children's names are longer than it",
            holds=lambda name: len(name) <= length_max,
        ),
        Rule(
            cel=f"self.metadata.name.matches('{_NAME}')",
            message="`metadata.name` must be letters, digits and dashes and begin with a letter: it names Services",
            holds=lambda name: re.search(_NAME, name) is not None,
        ),
    )


def parse_spec(obj: Mapping[str, Any], cls: type[S], *, name_length_max: int | None) -> S:
    """The spec of a stored object. `name_length_max` None: any name that Kubernetes takes. Raises `InvalidObject`."""
    name = obj.get("metadata", {}).get("name", "")
    for rule in () if name_length_max is None else name_rules(name_length_max):
        if rule.holds is not None and not rule.holds(name):
            raise InvalidObject("metadata.name", rule.message)
    if "spec" not in obj:
        raise InvalidObject("spec", "must be set")
    spec = checked(Record(cls), obj["spec"], "spec")
    assert isinstance(spec, cls)
    return spec
