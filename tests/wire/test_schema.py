"""The table of schemas in the package is what kio's entities say, and a replica does without kio."""

import subprocess
import sys

from muster_coordinator.wire.schema import Entity, schema
from muster_coordinator.wire.versions import VERSIONS

from tests.wire.schemas_from_kio import TABLE, table_text


def test_the_table_is_what_kio_says_of_every_served_version():
    assert TABLE.read_text() == table_text(), "run python -m tests.wire.schemas_from_kio"


def structures(entity: Entity) -> list[Entity]:
    inside = [f.entity for f in entity.fields + entity.tagged if f.entity is not None]
    return [entity, *(one for each in inside for one in structures(each))]


def test_every_served_version_has_both_messages_and_equal_structures_are_one_object():
    found = {
        (api, version, direction): schema(api, version, direction)
        for api, versions in VERSIONS.items()
        for version in range(versions.min, versions.max + 1)
        for direction in ("request", "response")
    }
    for (api, version, direction), entity in found.items():
        assert entity.name.lower().endswith(direction)
        flexible = 0 <= VERSIONS[api].flexible <= version
        assert all(one.flexible == flexible for one in structures(entity)), (api, version)
    every = [one for entity in found.values() for one in structures(entity)]
    assert len({id(one) for one in every}) == len({repr(one) for one in every})


def test_a_replica_compiles_all_its_codecs_without_kio():
    code = """
import sys
from muster_coordinator.wire.codecs import preload
preload()
assert not any(name.split(".")[0] in ("kio", "hypothesis") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
