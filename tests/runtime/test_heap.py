"""Memory that was freed is given back: after a burst, and whatever the largest buffer was that the process ever had.

In processes of their own: glibc's thresholds are a process' own, and are never lowered again.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
from muster_coordinator.runtime import gc_policy, limits
from muster_coordinator.runtime.gc_policy import CHECK_MS, GcPolicy
from muster_coordinator.runtime.heap import HeapTrim, set_thresholds

from tests.sim.loop import SimLoop, World

MIB = 1 << 20
BURST = 60 * MIB
KEPT_MAX = limits.HEAP_GROWTH_BYTES
TUNING = ("MALLOC_", "GLIBC_TUNABLES", "PYTHONMALLOC", "LD_PRELOAD")
"""What the environment may say of the allocator, which is tried here as it is."""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such thresholds")

SCRIPT = """
import ctypes, gc, os, sys
from muster_coordinator.runtime import heap
from muster_coordinator.runtime.gc_policy import read_resident_bytes

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost").split()]

mallinfo = ctypes.CDLL(None).mallinfo
mallinfo.restype = Mallinfo
largest, every, thresholds, gives_back = map(int, sys.argv[1:])
gc.disable()
if thresholds:
    assert heap.set_thresholds({})
before = read_resident_bytes()
once = bytearray(largest)
del once
mapped = mallinfo().hblkhd
again = bytearray(largest)
mapped = mallinfo().hblkhd - mapped
del again
burst = [b"x" * 100_000 for _ in range(600)]
most = read_resident_bytes()
stays = burst[::-every] if every else []
del burst
top = mallinfo().keepcost
if gives_back:
    heap.give_back()
print(most - before, read_resident_bytes() - before, mapped, top)
"""


class Kept(NamedTuple):
    """What a process keeps after 600 buffers of 100 kB, and one that is larger than what glibc maps by default."""

    resident_bytes: int
    mapped_bytes: int
    """In mappings of their own, of a second buffer of that size: none once freeing the first has raised the bound."""
    top_bytes: int
    """Free at the top of the heap, as `mallinfo(3)` counts it."""


def kept(*, largest: int = 31 * MIB, every: int = 0, thresholds: bool = True, gives_back: bool = False) -> Kept:
    """Each `every`th buffer of the burst stays in use."""
    words = [str(int(word)) for word in (largest, every, thresholds, gives_back)]
    own = {name: value for name, value in os.environ.items() if not name.startswith(TUNING)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], env=own, capture_output=True, text=True, timeout=60, check=True
    )
    most, *numbers = map(int, done.stdout.split())
    assert most > BURST * 9 // 10, f"no burst: {most}"
    return Kept(*numbers)


@glibc
def test_one_large_buffer_does_not_change_what_stays_of_a_burst() -> None:
    """By glibc's own account: whether the top of the heap is free at all hangs on where a small block came to lie,
    which differs between machines. The resident size is for the two tests below."""
    without, with_thresholds = kept(thresholds=False), kept()
    assert without.mapped_bytes < MIB, "glibc takes it from the heap once one of its size was freed"
    assert without.resident_bytes > BURST // 2, "and keeps up to 64 MiB"
    assert with_thresholds.mapped_bytes >= 31 * MIB
    assert with_thresholds.top_bytes <= limits.HEAP_TOP_FREE_BYTES_MAX


@glibc
def test_a_burst_that_is_over_is_given_back() -> None:
    assert kept(gives_back=True).resident_bytes <= KEPT_MAX
    assert kept(gives_back=True, thresholds=False).resident_bytes <= KEPT_MAX, "the thresholds are not what it needs"


@glibc
def test_free_pages_among_those_in_use_are_given_back() -> None:
    stay = 600 // 20 * 100_000
    assert kept(every=20).resident_bytes > BURST // 2, "the last buffer of the burst stays, above all free ones"
    assert kept(every=20, gives_back=True).resident_bytes <= stay + KEPT_MAX


def test_who_has_set_the_allocator_is_not_overruled() -> None:
    assert not set_thresholds({"MALLOC_ARENA_MAX": "1"})
    assert not set_thresholds({"GLIBC_TUNABLES": "glibc.rtld.nns=4:glibc.malloc.trim_threshold=131072"})


class Resident:
    """Of a process that would be left with `least` if all that is free were given back."""

    def __init__(self) -> None:
        self.now = self.least = 100 * MIB
        self.given_back = 0

    def give_back(self) -> None:
        self.given_back += 1
        self.now = self.least

    def at(self) -> Callable[[], int]:
        return lambda: self.now


def test_it_is_given_back_after_growth_once() -> None:
    resident = Resident()
    trim = HeapTrim(SimLoop(World()), resident.at(), resident.give_back)
    resident.now += limits.HEAP_GROWTH_BYTES - 1
    trim.look()
    assert resident.given_back == 0
    resident.now += 1
    trim.look()
    assert (resident.given_back, resident.now) == (1, resident.least)
    resident.now = resident.least = 200 * MIB  # in use
    for _ in range(3):
        trim.look()
    assert resident.given_back == 2, "what is in use is tried once"


def test_growth_is_measured_from_the_least_since() -> None:
    resident = Resident()
    trim = HeapTrim(SimLoop(World()), resident.at(), resident.give_back)
    resident.now = resident.least = 50 * MIB
    trim.look()
    resident.now = 90 * MIB
    trim.look()
    assert resident.given_back == 1


def test_the_policy_looks_each_time_also_without_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("collect", "freeze", "enable", "set_threshold"):
        monkeypatch.setattr(gc_policy.gc, name, lambda *_: 0)
    world, resident = World(), Resident()
    loop = SimLoop(world)
    policy = GcPolicy(
        loop,
        leads_nothing=lambda: False,
        resident_bytes=resident.at(),
        heap=HeapTrim(loop, resident.at(), resident.give_back),
    )
    policy.start()
    resident.now += limits.HEAP_GROWTH_BYTES
    world.run_for(2 * CHECK_MS)
    assert (policy.collections, resident.given_back) == (0, 1)
    policy.stop()
