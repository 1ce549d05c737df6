"""What tests of kernels share."""

from contextlib import ExitStack, closing

import pytest

from wavetrim.kernels.pipeline.pipeline import GpuPipeline


@pytest.fixture(scope="module")
def pipeline(kernel_cache):
    """One pipeline on the GPU for a module's tests."""
    with closing(GpuPipeline(cache_dir=kernel_cache)) as pipeline:
        yield pipeline


@pytest.fixture
def open_pipeline(kernel_cache):
    """Opens pipelines with limits of their own; all are closed after the test."""
    with ExitStack() as opened:

        def open_one(**limits):
            pipeline = GpuPipeline(cache_dir=kernel_cache, **limits)
            return opened.enter_context(closing(pipeline))

        yield open_one
