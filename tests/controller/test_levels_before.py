"""At feature levels 1 and 2 every command does what it did before bindings of brokers were known.

`outcomes_of_levels_1_and_2.txt` was written by the release before bindings: for each seed of this file's generator a
hash over all results and all checkpoints' bytes along the way. Both releases run side by side until level 3 is
finalised, so one byte of difference would part their state. The file is never written again.
"""

import hashlib
import random
from pathlib import Path

import pytest
from muster_coordinator.controller.codec import encode_result
from muster_coordinator.controller.commands import (
    AddPartitions,
    AllocateProducerIds,
    AlterTopicConfigs,
    Command,
    DeleteTopic,
    FinalizeFeatures,
    SetDraining,
)
from muster_coordinator.ids import BrokerId

from tests.controller.cluster_commands import VOTERS, Log, create, form, register, topic_id

COMMANDS = 60
OUTCOMES = Path(__file__).with_name("outcomes_of_levels_1_and_2.txt")
UUIDS = (None, None, None, bytes(16), b"z" * 16, b"short")
CONFIGS = ((), (("retention.ms", "1"),), (("segment.ms", "1"), ("retention.ms", "2")))


def drawn(rand: random.Random) -> Command:
    broker = BrokerId(rand.randrange(4))
    match rand.randrange(11):
        case 0 | 1 | 2:
            return register(
                broker, uuid=rand.choice(UUIDS), incarnation=rand.randrange(1, 6), feature_max=rand.randrange(1, 4)
            )
        case 3:
            return SetDraining(broker=broker, draining=rand.random() < 0.5)
        case 4 | 5:
            name = rand.choice(("a", "b", "c", "a.b", "a_b", "bad name"))
            return create(name, n=rand.randrange(12), partitions=rand.randrange(4), configs=rand.choice(CONFIGS))
        case 6:
            return DeleteTopic(topic_id=topic_id(rand.randrange(12)))
        case 7:
            return AddPartitions(topic_id=topic_id(rand.randrange(12)), total=rand.randrange(6))
        case 8:
            before, after = rand.choice(CONFIGS), rand.choice(CONFIGS)
            return AlterTopicConfigs(topic_id=topic_id(rand.randrange(12)), expected=before, configs=after)
        case 9:
            return AllocateProducerIds(broker=broker)
        case _:
            return FinalizeFeatures(feature_level=rand.randrange(3))


def outcome(seed: int) -> str:
    """A hash over what the commands of this seed were answered and left behind."""
    rand = random.Random(seed)
    log = Log(form(voters=VOTERS[: rand.choice((1, 3))], feature_level=rand.choice((1, 2))))
    digest = hashlib.sha256()
    for _ in range(COMMANDS):
        result = log.apply(drawn(rand))
        assert log.cluster.feature_level <= 2
        digest.update(log.entries[-1] + encode_result(result) + log.machine.image().encode().head)
    return digest.hexdigest()[:32]


def kept() -> list[str]:
    return OUTCOMES.read_text().split()


@pytest.mark.parametrize("tens", range(10))
def test_commands_of_levels_1_and_2_end_as_in_the_release_before(tens: int) -> None:
    seeds = range(20 * tens, 20 * tens + 20)
    assert [outcome(seed) for seed in seeds] == kept()[seeds.start : seeds.stop]
