"""Faults of a real GPU under a running service: every job ends right, or with its reason."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.environment import clear_environment
from tests.matrices import make_matrix
from tests.processes import list_children

pytestmark = pytest.mark.gpu

SIZE = 1500
JOBS = 6

INJECTION = '''
"""Whoever multiplies on a GPU meets a faulty kernel first, once, where a file asks for it."""
import os
from pathlib import Path

FOLDER = Path(__file__).parent
KERNELS = {
    "illegal": "*(volatile int*)8 = 1;",
    "hang": "long long start = clock64(); while (clock64() - start < 1LL << 60) {}",
}
if (FOLDER / "gone").exists():
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

from wavetrim.kernels.pipeline.pipeline import GpuPipeline

multiply = GpuPipeline.multiply

def multiply_after_fault(self, product, cut):
    for name, body in KERNELS.items():
        try:
            (FOLDER / name).rename(FOLDER / (name + ".met"))
        except FileNotFoundError:
            continue
        import cupy
        kernel = cupy.RawKernel('extern "C" __global__ void fault() {' + body + "}", "fault")
        with cupy.cuda.Device(self.device_index), self.compute_stream:
            kernel((1,), (1,), ())
    return multiply(self, product, cut)

GpuPipeline.multiply = multiply_after_fault
'''

HOLD_MEMORY = """
import cupy
held = []
for size in (2**30, 2**26, 2**22):
    try:
        while True:
            held.append(cupy.cuda.runtime.malloc(size))
    except cupy.cuda.runtime.CUDARuntimeError:
        pass
print(len(held), flush=True)
input()
"""


@pytest.fixture
def faults(tmp_path, monkeypatch):
    """The folder in which a file named after a fault brings it about."""
    (tmp_path / "sitecustomize.py").write_text(INJECTION, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", clear_environment(tmp_path)["PYTHONPATH"])
    return tmp_path


@pytest.fixture
def service(faults, kernel_cache, start_server):
    return start_server(devices="0", cpu_threads=8, stall_seconds=3)


def check_jobs(service, count=JOBS, *, f=0):
    """Post jobs, all rows on the GPU unless F is given; returns them once all have ended right."""
    a, b = (make_matrix(SIZE, SIZE, "float32", seed=seed) for seed in (1, 2))
    stored = [service.upload(matrix) for matrix in (a, b)]
    jobs = [service.post_job(*stored, f=f) for _ in range(count)]
    ended = [service.wait_job(job, seconds=120) for job in jobs]
    assert [job["state"] for job in ended] == ["succeeded"] * count, ended
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for job in ended:
        product = service.download(f"/v1/jobs/{job['id']}/result")
        assert np.allclose(product, expected, atol=1e-2)
    return ended


@pytest.mark.parametrize(("fault", "status"), [("illegal", 70), ("hang", 71)])
def test_jobs_survive_a_kernel_that(service, faults, fault, status):
    (faults / fault).touch()
    ended = check_jobs(service)
    assert (faults / f"{fault}.met").exists()
    log = service.read_log()
    assert f"exit status {status}" in log, log[-2000:]
    assert sorted(job["attempts"] for job in ended) == [1] * (JOBS - 1) + [2], log[-2000:]
    check_jobs(service, 2)


def test_a_gpu_whose_memory_another_process_holds_fails_no_job(service):
    check_jobs(service, 1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert int(holder.stdout.readline()) > 0
        check_jobs(service)
    finally:
        holder.communicate(b"\n", timeout=30)
    assert all(job["plan"]["gpu_rows"] == SIZE for job in check_jobs(service, 2))


def test_a_service_whose_gpu_is_gone_goes_on_without_it_and_says_so(service, faults):
    check_jobs(service, 1)
    (faults / "gone").touch()
    assert service.client.get("/healthz/ready").json()["status"] == "ready"
    for child in list_children(service.process.pid):
        os.kill(child, signal.SIGKILL)
    check_jobs(service, 2, f="auto")
    health = service.client.get("/healthz/ready").json()
    assert health["status"] == "degraded"
    assert "GPU" in health["detail"]
