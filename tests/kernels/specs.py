"""Kernels for tests: those of this machine's GPU, or of Hopper where there is none."""

import numpy as np
import pytest

from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.gemm.dispatch import multiply_on_device

_HOPPER = (9, 0)
_CAPABILITY = next((device.compute_capability for device in list_devices()), _HOPPER)
SPECS = list_kernels(compute_capability=_CAPABILITY)


def needs(spec):
    """Skips tests where the GPU does not run a kernel."""
    return pytest.mark.skipif(spec not in SPECS, reason=f"this GPU does not run {spec.label}")


def name_spec(spec):
    """A kernel as the name of a test's case."""
    return spec.label.replace(" ", "-")


def multiply(spec, a, b, cache_dir, **options):
    """A·B by a kernel on the GPU, written over NaN."""
    import cupy

    c = cupy.full((a.shape[0], b.shape[1]), np.nan, a.dtype)
    operands = cupy.asarray(a), cupy.asarray(b), c
    multiply_on_device(spec, *operands, cache_dir=cache_dir, **options)
    return cupy.asnumpy(c)
