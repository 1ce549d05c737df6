"""What tests of kernels share."""

import pytest

from wavetrim.kernels.pipeline.pipeline import GpuPipeline


@pytest.fixture(scope="module")
def pipeline(kernel_cache):
    """One pipeline on the GPU for a module's tests."""
    pipeline = GpuPipeline(cache_dir=kernel_cache)
    yield pipeline
    pipeline.close()
