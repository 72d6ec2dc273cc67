"""What a task has freed is given back, also where it lies between what lives on, and it loads what it uses.

In a process of its own: what other tests have left in this one's heap is nobody's measure.
"""

import subprocess
import sys

SCRIPT = """
import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
from muster_pipeline.job.heap import give_back

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

arrays = [np.ones(12_000, dtype=np.int64) for _ in range(1_000)]  # below glibc's threshold for a mapping of its own
buffers = [pa.array(np.ones(12_000, dtype=np.int64)).cast(pa.int32()) for _ in range(2_000)]
kept = arrays[::20], buffers[::20]
del arrays, buffers
gc.collect()
before = resident_mib()
give_back()
print(before, resident_mib(), sum(int(one.sum()) for one in kept[0]))
"""


def test_free_memory_between_live_pieces_goes_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    before, after, kept = map(int, done.stdout.split())
    assert kept == 50 * 12_000
    assert before - after >= 60, done.stdout


def test_a_worker_with_a_local_folder_has_no_delta_rs() -> None:
    """30 MiB of each; only the driver commits."""
    script = "import sys, muster_pipeline.job.distribute; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "'pyarrow'" in done.stdout
    assert "'deltalake'" not in done.stdout
