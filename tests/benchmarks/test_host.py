"""Small runs of the benchmarks, and what they compare: products in host memory, jobs, kernels."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import draw_operands, pin_operands, poison
from benchmarks.common.shapes import DTYPES
from benchmarks.host.baselines import OURS, list_baselines
from benchmarks.host.conditions import CannotMake, burn_cores, make_half_group
from benchmarks.host.pages import render_regret, render_times
from benchmarks.host.results import read_contests
from benchmarks.host.rounds import Limit
from benchmarks.host.sweep import Sweep
from benchmarks.http.rows import Case, find_case, read_http_results
from benchmarks.jobs.rows import read_jobs_results
from benchmarks.jobs.trace import LOADS
from benchmarks.kernels.contest import LEAST_TURNS
from benchmarks.kernels.rows import read_kernel_results
from tests.environment import ROOT
from tests.processes import is_gone, run_benchmark, wait_until
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.store import find_profile


@pytest.mark.gpu
@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_baselines_compute_the_product(dtype, memory, gpus):
    if gpus > len(list_devices()):
        pytest.skip("this machine has one GPU")
    if gpus == 1:
        pytest.importorskip("torch")
    drawn = draw_operands((1531, 919, 1201), dtype)
    operands = pin_operands(drawn) if memory == "pinned" else drawn
    check = FreivaldsCheck(drawn)
    for baseline in list_baselines(gpus):
        for _ in range(2):  # buffers come from pools the second time
            poison(operands.c)
            baseline.multiply(operands)
            assert check.find_error(operands.c) <= 1, baseline.name


@pytest.mark.gpu
def test_the_gpu_alone_has_a_least_time():
    assert 0 < Limit(1).find_seconds(draw_operands((512, 512, 512), "float64")) < 1


@pytest.mark.slow
def test_a_run_writes_its_rows_and_its_table(tmp_path):
    small = ("--shapes", "300x200x100", "--rounds", "2", "--runs", "2")
    run_benchmark("host", tmp_path, *small, "--conditions", "quiet", "busy", "half")
    (results,) = read_contests(tmp_path)
    made = results.document["conditions"]
    assert list(made) == ["quiet", "busy", "half"]
    assert made["quiet"] == made["busy"] == "made"
    assert made["half"] == "made" or made["half"].startswith("cannot be made: ")
    measured = [condition for condition in made if made[condition] == "made"]
    for condition in measured:
        rows = [row for row in results.rows if row.condition == condition]
        pageable = [row for row in rows if row.memory == "pageable" and row.baseline == "numpy"]
        assert [row.shape for row in pageable] == [(300, 200, 100)]
        assert all(row.f is not None for row in rows if row.baseline == OURS)
        assert all(len(row.runs) <= 2 <= row.turns <= 4 and row.seconds > 0 for row in rows)
    assert render_regret([results]) == "", "there were no sweeps"
    table = render_times([results])
    assert [line.split(" | ")[1:4] for line in table.splitlines() if " cores (" in line] == [
        [condition, "pageable", "1"] for condition in measured
    ]


@pytest.mark.gpu
def test_a_sweep_finds_the_time_of_every_f(tmp_path):
    operands = draw_operands((1500, 1024, 1024), "float32")
    devices = list_devices()[:1]
    profile = find_profile(None, devices=devices, directory=None, cpu_threads=2)
    with Executor(cache_dir=tmp_path, devices=devices, cpu_threads=2) as executor:
        row = Sweep(executor, profile, operands.problem).measure(operands, "quiet", 1.0)
    assert row.regret >= 1.0
    assert row.f in {point[0] for point in row.curve}
    assert all(point[1] > 0 and point[2] > 0 for point in row.curve)
    assert min(row.gpu_alone_seconds, *row.measured_seconds.values()) >= 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1500, 700, 900), (1, 3000, 3000), (3000, 3000, 1)])
def test_right_products_pass_and_others_do_not(shape, dtype):
    operands = draw_operands(shape, dtype)
    assert operands.shape == shape
    assert operands.dtype == dtype
    assert np.isnan(operands.c).all()
    assert -1 <= operands.a.min() <= operands.a.max() <= 1
    check = FreivaldsCheck(operands)
    assert not check.find_error(operands.c) <= 1.0
    product = operands.a @ operands.b
    assert check.find_error(product) <= 0.5
    assert check.find_error(product[:, :-1]) == math.inf
    product[-1, -1] += 1.0
    assert check.find_error(product) > 1.0


def test_products_in_tf32_do_not_pass():
    operands = draw_operands((512, 2048, 2048), "float32")

    def cut(matrix):
        return (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    assert FreivaldsCheck(operands).find_error(cut(operands.a) @ cut(operands.b)) > 1.0


def read_cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_busy_processes_compute_until_the_block_ends_in_whatever_way():
    class Interrupted(BaseException):
        pass

    pids = []

    def burn():
        with burn_cores(2) as found:
            pids.extend(found)
            wait_until(lambda: all(read_cpu_seconds(pid) > 0.2 for pid in pids))
            raise Interrupted

    with pytest.raises(Interrupted):
        burn()
    assert len(pids) == 2
    assert all(map(is_gone, pids))


@pytest.mark.needs("time-group")
def test_half_is_half_the_cores_time_from_the_start_of_a_process():
    program = (
        "from pathlib import Path; from wavetrim.cpu.threads import read_cpu_quotas;"
        "print(min(read_cpu_quotas(Path('/'))))"
    )
    try:
        with make_half_group(2) as prefix:
            found = subprocess.run(
                [*prefix, sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True
            )
            groups = list(Path("/sys/fs/cgroup").rglob(f"wavetrim-bench-{os.getpid()}"))
    except CannotMake as error:
        pytest.skip(str(error))
    assert float(found.stdout) == 1
    assert len(groups) == 1
    assert not groups[0].exists()


@pytest.mark.slow
def test_the_service_a_lease_and_the_peer_take_turns(tmp_path):
    small = ("--sizes", "16", "--clients", "1", "4")
    for seconds in ("2", "30", "90"):  # a busy machine needs more
        told = run_benchmark(
            "http", tmp_path, *small, "--seconds", seconds, WAVETRIM_DEVICES="none"
        )
        if "no time is left" not in told:
            break
    (results,) = read_http_results(tmp_path)
    assert results.document["left_out"] == []
    alone, four = (find_case(results, Case(16, "float32", n)) for n in (1, 4))
    assert set(four) == {"wavetrim", "numpy"}
    assert set(alone) == {*four, "wavetrim-lease"}
    for row in (*alone.values(), *four.values()):
        assert row.requests >= row.rounds >= 1
        assert min(row.p50_seconds, row.rate) > 0


@pytest.mark.slow
def test_loads_a_flood_rates_and_lists_of_jobs_are_measured(tmp_path):
    small = ("--sizes", "16", "32", "64", "--jobs", "20", "--repeats", "8", "--name", "this")
    run_benchmark("jobs", tmp_path, *small, WAVETRIM_DEVICES="none")
    (results,) = read_jobs_results(tmp_path)
    rows = {(row.what, row.group, row.load): row for row in results.rows}
    assert {row.policy for row in results.rows} == {"this", "in process"}
    for load in LOADS:
        assert rows["load", "all", load].jobs == 20
    for kind in (("flood", "victims"), ("behind", "short ones"), ("rate", "disk")):
        assert rows[(*kind, None)].p50_seconds > 0
    for group in ("one list", "one by one", "in process"):
        assert rows["list", group, None].rate > 0


@pytest.mark.gpu
def test_kernels_have_rows_beside_cublas(tmp_path):
    run_benchmark("kernels", tmp_path, "--shapes", "512x512x512")
    (results,) = read_kernel_results(tmp_path)
    assert results.document["left_out"] == []
    assert {"naive", "register", "cublas"} <= {row.kernel for row in results.rows}
    assert all(row.tflops > 0 and row.turns >= LEAST_TURNS for row in results.rows)
