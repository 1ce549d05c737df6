"""The kernels of the probes on small, ragged sizes, to be run under compute-sanitizer.

`compute-sanitizer --tool memcheck python tests/lab/sanitizer_probes.py CACHE_DIR`
"""

import sys
from pathlib import Path

import cupy

from wavetrim.lab.gpu import cycles as cycle_probes
from wavetrim.lab.gpu import memory as memory_probes
from wavetrim.lab.gpu.stopwatch import Stopwatch


def main():
    cupy.cuda.set_allocator(None)  # separate allocations, so that accesses past an end are seen
    watch = Stopwatch(0, Path(sys.argv[1]), filler_bytes=1 << 20)
    readings = [
        *memory_probes.measure_strided_copies(watch, 1001, (1, 3, 8), 1),
        *memory_probes.measure_offset_copies(watch, 1001, (0, 5), 1),
        *memory_probes.measure_vector_copies(watch, 1028, 1),
        *memory_probes.measure_pitched_copies(watch, 70_000, (1, 257), 1),
        *memory_probes.measure_transposes(watch, 45, 67, 1),
        *cycle_probes.measure_banks(watch, [(0, 1), (33, 1), (1, 2)], 1),
        *cycle_probes.measure_tables(watch, (1, 32), 1),
    ]
    for case in memory_probes.measure_loads(watch, 1001, [(1, 0, 3), (5, 7, 1)], 1):
        readings += case
    wrong = [one for one in readings if not one.right]
    assert not wrong, wrong
    print(len(readings))


if __name__ == "__main__":
    main()
