"""Executors with several GPUs: in host memory, and on one real GPU."""

from contextlib import ExitStack

import pytest

from tests.scheduler.execution.host_pipeline import HostPipeline
from wavetrim.kernels.device import select_devices
from wavetrim.scheduler.execution import gpus as gpus_module
from wavetrim.scheduler.execution.executor import Executor


@pytest.fixture
def open_executor(kernel_cache, monkeypatch):
    """Opens an executor with real CPU threads and a number of GPUs that compute in host memory."""
    monkeypatch.setattr(gpus_module, "GpuPipeline", HostPipeline)
    info = type("Info", (), {"index": 0})()
    with ExitStack() as opened:

        def open_with(gpus):
            executor = Executor(cache_dir=kernel_cache, devices=[info] * gpus, cpu_threads=2)
            executor.pool.prepare()
            return opened.enter_context(executor)

        yield open_with


@pytest.fixture(scope="module")
def twin_executor(kernel_cache):
    """Two pipelines on one GPU."""
    with Executor(cache_dir=kernel_cache, devices=select_devices("0,0")) as executor:
        yield executor
