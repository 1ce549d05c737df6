"""Engine processes for tests."""

import pytest

from tests.scheduler.engine.worker_process import WorkerProcess


@pytest.fixture
def start(tmp_path, kernel_cache):
    """Starts workers, and ends them whatever the test has done to them."""
    workers = []

    def start_worker(devices="none"):
        workers.append(WorkerProcess(tmp_path, cache=kernel_cache, devices=devices))
        return workers[-1]

    yield start_worker
    for worker in workers:
        worker.close()
        worker.process.kill()
        worker.process.wait()


@pytest.fixture(scope="module")
def shared(tmp_path_factory, kernel_cache):
    """One worker for all tests that only compute and read all its messages."""
    folder = tmp_path_factory.mktemp("shared")
    started = WorkerProcess(folder, cache=kernel_cache)
    assert started.receive()["type"] == "ready"
    yield started
    started.close()
    started.process.wait(10)
