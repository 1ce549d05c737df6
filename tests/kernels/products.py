"""Products through a pipeline, for tests."""

from typing import Any

from tests.matrices import Array
from tests.rates import find_cut
from wavetrim.kernels.pipeline.host_product import GpuTimings, HostProduct
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.schedule.panels import Cut
from wavetrim.kernels.spec import KernelSpec


def compute(
    pipeline: GpuPipeline,
    spec: KernelSpec,
    a: Array,
    b: Array,
    c: Array,
    cut: Cut | None = None,
    **how: Any,
) -> GpuTimings:
    """C ← αA·B + βC, by default cut for an H200; `how` has other fields of a `HostProduct`."""
    product = HostProduct(spec, a, b, c, **how)
    return pipeline.multiply(product, find_cut(c, a) if cut is None else cut)
