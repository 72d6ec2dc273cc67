"""What rooms are told in tests: the defaults of `settings.py`, as `node_settings` hands them on, with some changed.

Rooms' settings values have no defaults of their own, so that each default is written once. What names a replica (its
endpoints, its folder, the topic configs of the file) is left out unless a test says it.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from muster_coordinator import node_settings as from_file
from muster_coordinator.api.services import ApiSettings
from muster_coordinator.groups.config import ShardConfig
from muster_coordinator.quotas.admission import AdmissionLimits
from muster_coordinator.raft.timing import Timing
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.runtime.client_listener import ClientLimits
from muster_coordinator.settings import Settings

_UNNAMED: dict[str, Any] = {"endpoints": (), "admin": "", "topic_configs": (), "data_dir": ""}


@cache
def _defaults() -> Settings:
    return Settings(node_id=0, data_dir=Path("/data"))


def node_settings(**changes: Any) -> NodeSettings:
    return replace(from_file.node_settings(_defaults()), **{**_UNNAMED, **changes})


def shard_config(**changes: Any) -> ShardConfig:
    return replace(from_file.shard_config(_defaults()), **changes)


def api_settings(**changes: Any) -> ApiSettings:
    return replace(from_file.api_settings(_defaults()), **{"broker_configs": (), **changes})


def client_limits(**changes: Any) -> ClientLimits:
    return replace(from_file.client_limits(_defaults()), **changes)


def admission_limits(**changes: Any) -> AdmissionLimits:
    return replace(from_file.admission_limits(_defaults()), **changes)


TIMING: Timing = node_settings().timing
