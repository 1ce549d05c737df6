"""Small ragged products on every kernel, to be run under compute-sanitizer.

`compute-sanitizer --tool racecheck python tests/kernels/sanitizer_driver.py CACHE_DIR [NAME...]`
"""

import sys
from pathlib import Path

import cupy
import numpy as np

from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.gemm.dispatch import multiply_on_device


def multiply_ragged(spec, k, cache_dir, *, padding, sms):
    m, n = spec.tile.m + 3, spec.tile.n + 5
    generator = np.random.default_rng(0)
    a, b, c = (
        generator.integers(-4, 5, (rows, columns + padding)).astype(spec.dtype)
        for rows, columns in ((m, k), (k, n), (m, n))
    )
    device_c = cupy.asarray(c)
    operands = cupy.asarray(a)[:, :k], cupy.asarray(b)[:, :n], device_c[:, :n]
    multiply_on_device(spec, *operands, alpha=2, beta=-1, sms=sms, cache_dir=cache_dir)
    c[:, :n] = 2 * (a[:, :k] @ b[:, :n]) - c[:, :n]
    np.testing.assert_array_equal(cupy.asnumpy(device_c), c)


def main():
    """Run the kernels that we compile, all or those named, with unaligned and aligned rows.

    Persistent ones compute a second product on few multiprocessors.
    """
    cupy.cuda.set_allocator(None)  # separate allocations, so that accesses past an end are seen
    names = sys.argv[2:]
    capability = list_devices()[0].compute_capability
    for spec in list_kernels(compute_capability=capability):
        if spec.source and (not names or spec.name in names):
            for padding in (0, 3):  # a padding of 3 aligns rows
                long_k = 64 if spec.stream_k_tail else 4  # long enough to split the tail
                for k in (spec.tile.k + 1, long_k * spec.tile.k + 1):
                    for sms in (None, spec.sms_quantum) if spec.can_limit_sms else (None,):
                        multiply_ragged(spec, k, Path(sys.argv[1]), padding=padding, sms=sms)
            print(spec.label)


if __name__ == "__main__":
    main()
