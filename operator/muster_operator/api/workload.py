"""`spec.workloadRef` of a ConsumerGroup: an existing workload whose pods consume."""

# a field is a call with its shape and text

from dataclasses import dataclass
from typing import ClassVar, Final

from muster_operator.api.fields import spec_field
from muster_operator.api.pod import NAME
from muster_operator.api.schema import Rule, choice

APPS: Final = "apps/v1"
ARGO: Final = "argoproj.io/v1alpha1"
DEPLOYMENT: Final = "Deployment"
STATEFULSET: Final = "StatefulSet"
ROLLOUT: Final = "Rollout"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRef:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="(self.kind == 'Rollout') == (self.apiVersion == 'argoproj.io/v1alpha1')",
            message="`apiVersion` must be argoproj.io/v1alpha1 for a Rollout and apps/v1 for the others",
            holds=lambda ref: (ref.kind == ROLLOUT) == (ref.api_version == ARGO),
        ),
    )

    api_version: str = spec_field(choice(APPS, ARGO), "API version of the workload.", required=True)
    kind: str = spec_field(choice(DEPLOYMENT, STATEFULSET, ROLLOUT), "Kind of the workload.", required=True)
    name: str = spec_field(NAME, "Name of the workload, in this namespace.", required=True)

    @property
    def title(self) -> str:
        """For sentences."""
        return f"{self.kind} {self.name}"
