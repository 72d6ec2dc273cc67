"""As many inputs as a time gives: `python -m tests.fuzz --minutes 45 [--processes 2] [--least 2000000]`.

Requests of a client that is known, and for each of them four handshakes of strangers; neither counts for the other.

Prints the count; exits 1 on a failure, or below `--least`. A seed that failed is printed with its input.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tests.fuzz.campaign import Campaign, rss_bytes
from tests.fuzz.strangers import Strangers

ROUND = 50_000
STRANGERS = 4
"""Handshakes for each request: one takes a tenth of its time."""
GROWTH_BYTES_MAX = 256 * 1024 * 1024
"""Of a process in all its rounds, from the end of the first."""


def campaign(seed: int) -> tuple[int, int, int]:
    """(inputs, decoded, proposed) of one round."""
    played = Campaign(f"nightly {seed}")
    played.run(ROUND)
    Strangers(f"nightly {seed}").run(STRANGERS * ROUND)
    return played.given.total(), played.decoded.total(), played.proposed.total()


def rounds(first: int, step: int, until: float) -> tuple[int, int, int]:
    """Every `step`th seed from `first` on until the time is over."""
    total: Any = (0, 0, 0)
    seed, rss_first_bytes = first, 0
    while time.time() < until:
        try:
            total = tuple(map(sum, zip(total, campaign(seed), strict=True)))
        except Exception:
            print(f"seed {seed} failed", flush=True)
            raise
        rss_first_bytes = rss_first_bytes or rss_bytes()
        grown = rss_bytes() - rss_first_bytes
        assert grown < GROWTH_BYTES_MAX, f"seed {seed}: {grown} bytes more than after the first"
        print(f"seed {seed}: {total[0]} inputs", flush=True)
        seed += step
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--least", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    until = time.time() + asked.minutes * 60
    with ProcessPoolExecutor(asked.processes) as pool:
        parts = [pool.submit(rounds, asked.seed + n, asked.processes, until) for n in range(asked.processes)]
        inputs, decoded, proposed = (sum(column) for column in zip(*(part.result() for part in parts), strict=True))
    print(f"{STRANGERS * inputs} handshakes of strangers, and nobody got in")
    print(f"{inputs} inputs, {decoded} decoded, {proposed} proposed, no failure")
    return 0 if inputs >= asked.least else 1


if __name__ == "__main__":
    sys.exit(main())
