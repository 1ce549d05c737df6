"""Kernels of this machine's GPU, or of Hopper where there is none, and products by them."""

import numpy as np
import pytest

from tests.rates import find_cut
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.gemm.dispatch import multiply_on_device
from wavetrim.kernels.pipeline.host_product import HostProduct

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


def compute(pipeline, spec, a, b, c, cut=None, **how):
    """C ← αA·B + βC, by default cut for an H200; `how` has other fields of a `HostProduct`."""
    product = HostProduct(spec, a, b, c, **how)
    return pipeline.multiply(product, find_cut(c, a) if cut is None else cut)
