"""What both kinds report in `.status`: the shapes of conditions and of numbers that kubectl shows."""

from dataclasses import dataclass
from typing import Final

from muster_operator.api.fields import Record, spec_field
from muster_operator.api.schema import Integer, ListOf, Text, choice

# a field is a call with its shape and text

TIME: Final = Text(max_length=40, format="date-time")
NEVER: Final = "1970-01-01T00:00:00Z"
COUNT: Final = Integer(low=0, high=2**31 - 1)
LONG: Final = Integer(low=0, high=2**62)
# The API server reads bounds as float64, where 2**63 - 1 becomes 2**63: not an int64, so it would reject every status.
WORD: Final = Text(max_length=253)
RESTARTED_AT: Final = Text(max_length=253)
"""Any text: the annotation is free text, and a status that the API server rejects because of it would be lost whole."""
SENTENCE: Final = Text(max_length=32_768)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    type: str = spec_field(
        Text(max_length=316, min_length=1), "Type of the condition: docs/operator-conditions.md.", required=True
    )
    status: str = spec_field(choice("True", "False", "Unknown"), "Unknown: it could not be observed.", required=True)
    reason: str = spec_field(
        Text(max_length=1024, min_length=1, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        "One word for programs.",
        required=True,
    )
    message: str = spec_field(SENTENCE, "A sentence for people.", required=True)
    last_transition_time: str = spec_field(TIME, "When `status` last changed.", required=True)
    observed_generation: int | None = spec_field(LONG, "metadata.generation of the spec that was judged.")


CONDITIONS: Final = ListOf(items=Record(Condition), max_items=20, keys=("type",))
"""A list-map by type: other field managers may add conditions of their own."""
