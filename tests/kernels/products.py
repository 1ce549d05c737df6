"""Products through a pipeline, for tests."""

from tests.rates import find_cut
from wavetrim.kernels.pipeline.host_product import HostProduct


def compute(pipeline, spec, a, b, c, cut=None, **how):
    """C ← αA·B + βC, by default cut for an H200; `how` has other fields of a `HostProduct`."""
    product = HostProduct(spec, a, b, c, **how)
    return pipeline.multiply(product, find_cut(c, a) if cut is None else cut)
