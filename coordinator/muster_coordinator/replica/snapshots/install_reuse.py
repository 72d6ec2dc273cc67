"""Finding the bytes of an offered install that own files hold, by checksums that both sides compute.

Problem: a follower that falls behind for the second time holds nearly all segments, and fetching them anew may take
longer than the leader keeps the entries after them. Mechanism: segments are equal byte by byte on all replicas. So for
an own file of the same name the leader is asked for the checksums of ranges, a few at a time, while the own ones are
computed; the beginning up to the first difference is used (`staging.adopt` links or copies it). What it does not do:
trust names or sizes, or replace the verification of the staged files. A leader that does not offer checksums is asked
for all bytes.

Invariant: a request for a checksum is repeated until it is answered. A link may refuse a single message, and since the
install is kept alive meanwhile (`SnapshotInstalls._look_alive`), no timer would end it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from muster_coordinator.ids import BrokerId
from muster_coordinator.links import channels
from muster_coordinator.ports import Disk, Loop, PeerNet
from muster_coordinator.replica import limits
from muster_coordinator.replica.snapshots import install_payload as wire
from muster_coordinator.replica.snapshots.install_payload import Check
from muster_coordinator.replica.snapshots.install_source import read_job

CHECKS_IN_FLIGHT_MAX = 32
"""Ranges in flight, so that a slow link is kept busy. They are read one after the other, so this costs no memory."""
ASK_AGAIN_MS = 5_000
"""A request or its answer counts as lost after this time. A second answer has no effect."""
_UNKNOWN = -1


class _Range:
    """The checksums of one range, here and at the leader (there)."""

    __slots__ = ("asked_ms", "here", "length", "there")

    def __init__(self, length: int, asked_ms: int) -> None:
        self.length = length
        self.asked_ms = asked_ms
        self.here = self.there = _UNKNOWN


class Reuse:
    """The comparison for one install. `files`: (number in the offer, path of the own file, bytes that both sides have);
    `done` gets number -> how many of the first bytes are equal."""

    def __init__(
        self,
        loop: Loop,
        disk: Disk,
        net: PeerNet,
        leader: BrokerId,
        install: int,
        files: list[tuple[int, str, int]],
        done: Callable[[dict[int, int]], None],
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._net = net
        self._leader = leader
        self._install = install
        self._paths = {number: path for number, path, _ in files}
        self._done = done
        self._todo = deque(
            (number, offset, min(limits.INSTALL_CHECK_BYTES, size - offset))
            for number, _, size in files
            for offset in range(0, size, limits.INSTALL_CHECK_BYTES)
        )
        self._asked: dict[tuple[int, int], _Range] = {}
        self._equal: dict[int, int] = {}
        """File -> end of the last range found equal."""
        self._differs: dict[int, int] = {}
        """File -> start of the first range found different."""
        self._ended = False

    def go_on(self) -> None:
        """Ask for further ranges, up to `CHECKS_IN_FLIGHT_MAX`; call `done` when all are compared."""
        while self._todo and len(self._asked) < CHECKS_IN_FLIGHT_MAX:
            number, offset, length = self._todo.popleft()
            if number in self._differs:
                continue
            self._asked[number, offset] = _Range(length, self._loop.monotonic_ms())
            self._ask(number, offset, length)
            job = read_job(self._disk, self._paths[number], offset, length)
            self._loop.submit("transfer", job, partial(self._here, number, offset))
        if not self._asked and not self._ended:
            self._ended = True
            equal = {number: min(end, self._differs.get(number, end)) for number, end in self._equal.items()}
            self._done({number: end for number, end in equal.items() if end})

    def ask_again(self) -> None:
        """Repeat each request that has had no answer for `ASK_AGAIN_MS`."""
        now_ms = self._loop.monotonic_ms()
        for (number, offset), known in self._asked.items():
            if known.there == _UNKNOWN and now_ms - known.asked_ms >= ASK_AGAIN_MS:
                known.asked_ms = now_ms
                self._ask(number, offset, known.length)

    def _ask(self, number: int, offset: int, length: int) -> None:
        self._net.send(self._leader, channels.BULK, wire.encode_check_ask(self._install, number, offset, length))

    def answered(self, check: Check) -> None:
        """The leader's checksum of a range has come."""
        known = self._asked.get((check.file, check.offset))
        if known is not None and known.length == check.length:
            known.there = check.checksum
            self._judge(check.file, check.offset, known)

    def _here(self, number: int, offset: int, result: tuple[bytes, int] | BaseException) -> None:
        known = self._asked[number, offset]
        if isinstance(result, BaseException):
            self._differ(number, offset)  # the own file cannot be read: fetch it from here on
        else:
            known.here = result[1]
            self._judge(number, offset, known)

    def _judge(self, number: int, offset: int, known: _Range) -> None:
        if _UNKNOWN in (known.here, known.there):
            return
        if known.here != known.there:
            self._differ(number, offset)
            return
        del self._asked[number, offset]
        self._equal[number] = max(self._equal.get(number, 0), offset + known.length)
        self.go_on()

    def _differ(self, number: int, offset: int) -> None:
        del self._asked[number, offset]
        self._differs[number] = min(offset, self._differs.get(number, offset))
        self.go_on()
