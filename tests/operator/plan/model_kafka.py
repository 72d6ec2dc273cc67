"""A Topic or a User, its cluster and an operator that may end at any moment: passes of the pure plans, one at a time.

A pass observes, plans, carries out and writes the status, as `runtime.reconcile` does. `crash_after` ends it after so
many actions, before the status is written; the next pass knows only what Kubernetes and Kafka have.
"""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from muster_operator import naming
from muster_operator.api.topic import parse_topic
from muster_operator.api.user import parse_user
from muster_operator.kube.views import owner_view
from muster_operator.plan.actions import (
    Action,
    ChangeKafka,
    DeleteUserSecret,
    Plan,
    SetFinalizer,
    WriteUserSecret,
)
from muster_operator.plan.settings import PlanSettings
from muster_operator.plan.topic import plan_topic
from muster_operator.plan.user import plan_user, secret_name, user_name
from muster_operator.world.kafka_object import SecretView, SetPassword, TopicWorld, UserView, UserWorld
from muster_operator.world.views import Unknown

from tests.operator.fakes.kafka_objects import KafkaObjects

SETTINGS = PlanSettings(operator_image="muster:1", operator_namespace="ops")
NOW_MS = 1_700_000_000_000
BOOTSTRAP = "kafka:9092"


class Model:
    """`live` is the object as Kubernetes has it; None: gone."""

    def __init__(self, kind: str, **spec: Any) -> None:
        self.kafka = KafkaObjects()
        self.where: str | Unknown = BOOTSTRAP
        self.elder: str | None = None
        self.cluster_gone = False
        self.secrets: dict[str, SecretView] = {}
        self._versions = iter(range(1, 10_000))
        self.live: dict[str, Any] | None = {
            "apiVersion": naming.API_VERSION, "kind": kind,
            "metadata": {"name": "it", "namespace": "ns", "uid": "u", "generation": 1, "annotations": {}},
            "spec": {"bootstrapServers": BOOTSTRAP, **spec},
        }  # fmt: skip

    @property
    def status(self) -> Mapping[str, Any]:
        assert self.live is not None
        found: Mapping[str, Any] = self.live.get("status") or {}
        return found

    @property
    def ready(self) -> tuple[str, str]:
        """(status, reason)."""
        (one,) = [one for one in self.status["conditions"] if one["type"] == "Ready"]
        return one["status"], one["reason"]

    def edit(self, **spec: Any) -> None:
        assert self.live is not None
        self.live["spec"].update(spec)
        self.live["metadata"]["generation"] += 1

    def annotate(self, **annotations: str) -> None:
        assert self.live is not None
        self.live["metadata"]["annotations"] |= annotations

    def delete(self) -> None:
        """As kubectl does."""
        assert self.live is not None
        self.live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if not self.live["metadata"].get("finalizers"):
            self.live = None

    def plan(self) -> Plan:
        assert self.live is not None
        return (
            plan_topic(self._topic(), SETTINGS) if self.live["kind"] == "Topic" else plan_user(self._user(), SETTINGS)
        )

    def step(self, *, crash_after: int | None = None) -> Plan:
        """One pass."""
        plan = self.plan()
        for number, action in enumerate(plan.actions):
            if crash_after == number:
                return plan
            self._carry_out(action)
        if crash_after is None and self.live is not None:
            self.live["status"] = copy.deepcopy({**plan.status, **plan.when_done})
        return plan

    def settle(self, steps_max: int = 12) -> None:
        """Pass after pass until one neither does nor records anything."""
        for _ in range(steps_max):
            if self.live is None:
                return
            before = copy.deepcopy(self.live)
            if not self.step().actions and self.live == before:
                return
        raise AssertionError(f"it does not come to rest: {self.live}")

    def _owner(self) -> Any:
        assert self.live is not None
        return owner_view(self.live)

    def _topic(self) -> TopicWorld:
        assert self.live is not None
        spec = parse_topic(self.live)
        name = spec.topic_name or "it"
        return TopicWorld(
            owner=self._owner(), spec=spec, name=name, bootstrap=self.where, where=self.where, elder=self.elder,
            topic=asyncio.run(self.kafka.topic(where=BOOTSTRAP, name=name)), cluster_gone=self.cluster_gone,
            now_ms=NOW_MS,
        )  # fmt: skip

    def _user(self) -> UserWorld:
        assert self.live is not None
        spec = parse_user(self.live)
        name, status = user_name(spec, "it"), self.status
        user: UserView | Unknown = asyncio.run(
            self.kafka.user(
                where=BOOTSTRAP,
                name=name,
                principal=f"User:{name}",
                credentials=bool(spec.authentication.mechanism or status.get("mechanism")),
                acls=bool(spec.acls or status.get("acls")),
                quotas=bool(spec.quotas.by_key or status.get("quotas")),
            )
        )
        own, source = secret_name(spec, "it"), spec.authentication.password_secret
        return UserWorld(
            owner=self._owner(), spec=spec, name=name, bootstrap=self.where, where=self.where, elder=self.elder,
            user=user, cluster_gone=self.cluster_gone, now_ms=NOW_MS, secret=self.secrets.get(own) if own else None,
            password=self.secrets.get(source.name) if source else None,
        )  # fmt: skip

    def put_secret(self, name: str, *, owned: bool = False, settings_hash: str = "") -> None:
        version = f"v{next(self._versions)}"
        self.secrets[name] = SecretView(name=name, version=version, owned=owned, settings_hash=settings_hash)

    def _carry_out(self, action: Action) -> None:
        match action:
            case SetFinalizer():
                self._finalize(action)
            case WriteUserSecret():
                self.put_secret(action.name, owned=True, settings_hash=action.settings_hash)
            case DeleteUserSecret():
                self.secrets.pop(action.name, None)
            case ChangeKafka():
                password = ""
                if isinstance(action.change, SetPassword):
                    assert action.password is not None
                    assert self.secrets[action.password.secret].version == action.password.version
                    password = action.password.version
                asyncio.run(self.kafka.change(where=BOOTSTRAP, change=action.change, password=password))
            case _:
                raise AssertionError(f"not an action of a Topic or User: {action}")

    def _finalize(self, action: SetFinalizer) -> None:
        assert self.live is not None
        metadata = self.live["metadata"]
        if action.present:
            assert "deletionTimestamp" not in metadata, "Kubernetes takes no new finalizer on a deleted object"
            metadata["finalizers"] = [naming.FINALIZER]
        else:
            metadata.pop("finalizers", None)
            if "deletionTimestamp" in metadata:
                self.live = None
