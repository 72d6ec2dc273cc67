"""Many inputs, one after the other, counted by (API, version): `Campaign(seed).run(inputs)`."""

import gc
import os
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from muster_coordinator.wire.schema import schema
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.fuzz import extremes
from tests.fuzz.sane import MAKERS, plain
from tests.fuzz.target import CHECK_EVERY, Quotas, Target

CORPUS = Path(__file__).parent / "corpus"
BENT, SPOILT = 0.5, 0.2
"""Shares of the inputs; the others are sane."""
RARE = frozenset(
    (
        Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.CREATE_PARTITIONS, Api.INCREMENTAL_ALTER_CONFIGS, Api.ALTER_CONFIGS,
        Api.DELETE_RECORDS,
    )
)  # fmt: skip
"""Each of these makes or removes files: a share of its turns is taken, with more sane ones among them."""
RARE_SHARE = 0.25
PROPOSING = frozenset(
    (
        Api.PRODUCE, Api.OFFSET_COMMIT, Api.JOIN_GROUP, Api.SYNC_GROUP, Api.LEAVE_GROUP, Api.CREATE_TOPICS,
        Api.DELETE_TOPICS, Api.DELETE_GROUPS, Api.INCREMENTAL_ALTER_CONFIGS, Api.ALTER_CONFIGS, Api.OFFSET_DELETE,
        Api.TXN_OFFSET_COMMIT, Api.DELETE_RECORDS, Api.CREATE_PARTITIONS, Api.INIT_PRODUCER_ID,
        Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.END_TXN, Api.WRITE_TXN_MARKERS, Api.CREATE_ACLS,
        Api.DELETE_ACLS, Api.ALTER_CLIENT_QUOTAS, Api.ALTER_PARTITION_REASSIGNMENTS, Api.ALTER_USER_SCRAM_CREDENTIALS,
    )
)  # fmt: skip
"""APIs whose good requests end in the log. UpdateFeatures and UnregisterBroker are none here: a cluster of one replica
has nothing to raise, and nobody to let go; nor is Metadata, which creates nothing by default."""
SERVED = [(api, v) for api, served in sorted(VERSIONS.items()) for v in range(served.min, served.max + 1)]


def rss_bytes() -> int:
    """Of this process, after everything that nobody refers to is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Campaign:
    """A replica, or one after the other, and what they are given."""

    def __init__(self, seed: int | str, quotas: Quotas | None = None) -> None:
        self.seed = seed
        self.quotas = quotas
        self.rand = Random(seed)
        self.target = Target(seed, quotas)
        self.given: Counter[tuple[int, int]] = Counter()
        self.decoded: Counter[tuple[int, int]] = Counter()
        self.proposed: Counter[tuple[int, int]] = Counter()
        self.rss_bytes: list[int] = []
        """At the end of each replica's life, when it is forgotten."""

    def run(self, inputs: int, life: int | None = None) -> None:
        """`inputs` frames; the last one is shown when something fails. After `life` of them another replica follows.

        A list of all groups costs as much as there are groups, and a campaign makes one with every ninth frame.
        """
        for number, (api, version, frame) in zip(range(inputs), self._frames(), strict=False):
            if life is not None and number and number % life == 0:
                self._end()
                del self.target
                self.rss_bytes.append(rss_bytes())
                self.target = Target(f"{self.seed} from {number} on", self.quotas)
            try:
                outcome = self.target.give(frame)
                if number % CHECK_EVERY == CHECK_EVERY - 1:
                    self.target.check()
            except Exception as error:
                shown = frame.hex() if len(frame) < 400 else f"{frame[:200].hex()}... ({len(frame)} bytes)"
                raise AssertionError(f"input {number}, {Api(api).name} v{version}: {shown}") from error
            self.given[api, version] += 1
            self.decoded[api, version] += outcome.decoded
            self.proposed[api, version] += outcome.proposed
        self._end()

    def _end(self) -> None:
        self.target.check()
        self.target.restart()
        self.target.check()

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        rand = self.rand
        while True:
            api, version = rand.choice(SERVED)
            if api in RARE and rand.random() > RARE_SHARE:
                continue
            frame = self._frame(api, version)
            if frame is not None:
                yield api, version, frame

    def _frame(self, api: int, version: int) -> bytes | None:
        rand = self.rand
        self.target.prepare(api)
        values = plain(schema(api, version, "request"))
        values.update(MAKERS[api](rand, self.target.known))
        kind = rand.random()
        if kind < (BENT / 2 if api in RARE else BENT):
            extremes.bend(rand, api, version, values)
        client_id = rand.choice(("c", "c", None, "", "é" * 16_000, "x" * 32_730, "x" * 32_767))
        if rand.random() < 0.9:
            client_id = "c"
        try:
            frame = extremes.frame(api, version, values, rand.randrange(2**31), client_id)
        except (struct.error, AssertionError, OverflowError):
            return None  # this version cannot carry it
        return extremes.spoil(rand, frame) if kind >= 1 - SPOILT else frame
