"""How many cores are usable, by affinity and by files of control groups."""

import os

import pytest

from tests.groups import write_groups
from tests.processes import run_python
from wavetrim.cpu.threads import read_cpu_quotas, usable_cores


def test_affinity_bounds_the_cores_where_no_group_limits_them(tmp_path):
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("quota", [20_000, 50_000, 95_000])
def test_a_quota_below_a_core_is_one_usable_core(tmp_path, quota):
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"}
    assert usable_cores(write_groups(tmp_path, files)) == 1


V1 = "sys/fs/cgroup/cpu,cpuacct"
V2 = "sys/fs/cgroup/system.slice"
QUOTAS: dict[str, tuple[dict[str, str], list[float]]] = {
    "the group and all above it": (
        {
            "proc/self/cgroup": "0::/system.slice/wavetrim.service/engine\n",
            f"{V2}/cpu.max": "300000 100000\n",
            f"{V2}/wavetrim.service/cpu.max": "max 100000\n",
            f"{V2}/wavetrim.service/engine/cpu.max": "800000 100000\n",
            "sys/fs/cgroup/user.slice/cpu.max": "100000 100000\n",
        },
        [3.0, 8.0],
    ),
    "the mount, inside a container that sees the host's group": (
        {"proc/self/cgroup": "0::/../../pod7\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"},
        [4.0],
    ),
    "version 1 below an unlimited parent": (
        {
            "proc/self/cgroup": "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/ignored\n",
            f"{V1}/cpu.cfs_quota_us": "-1\n",
            f"{V1}/cpu.cfs_period_us": "100000\n",
            f"{V1}/docker/x/cpu.cfs_quota_us": "250000\n",
            f"{V1}/docker/x/cpu.cfs_period_us": "50000\n",
        },
        [5.0],
    ),
    "version 1 without a folder of the group": (
        {
            "proc/self/cgroup": "1:cpu:/docker/not-mounted-here\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        [1.5],
    ),
    "version 2 mounted beside version 1": (
        {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/unified/job/cpu.max": "200000 100000\n"},
        [2.0],
    ),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_quotas_are_read_from_every_layout_of_control_groups(tmp_path, case):
    files, quotas = QUOTAS[case]
    assert sorted(read_cpu_quotas(write_groups(tmp_path, files))) == quotas


def test_blas_runs_on_one_thread_after_the_limit_is_set_from_many_threads():
    program = """
import numpy, threading, threadpoolctl
from wavetrim.cpu.threads import limit_blas_threads
threads = [threading.Thread(target=limit_blas_threads) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print([x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"])
"""
    answer = run_python(program, OPENBLAS_NUM_THREADS="2")  # where no other BLAS is loaded
    assert answer.stdout == "[1]\n", answer.stderr


def test_blas_has_its_threads_again_after_products_in_one_thread_however_they_end():
    program = """
import numpy, signal, threading, threadpoolctl
from wavetrim.cpu.threads import blas_limit

def count():
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]

def fail():
    raise MemoryError

def multiply(*_):  # also as a signal's handler, while another product runs
    blas_limit.run(lambda: seen.append(count()))

seen = []
signal.signal(signal.SIGALRM, multiply)
blas_limit.run(lambda: (multiply(), signal.raise_signal(signal.SIGALRM), seen.append(count())))
print(seen, count())
try:
    blas_limit.run(fail)
except MemoryError:
    print(count())
multiply()
print(seen[-1], count())

# Another thread's product ends last, while the first one to set the limit lives.
begun, may_end = threading.Event(), threading.Event()
other = threading.Thread(target=blas_limit.run, args=(lambda: (begun.set(), may_end.wait()),))
blas_limit.run(lambda: (other.start(), begun.wait()))
print(count())
may_end.set()
other.join()
print(count())
"""
    answer = run_python(program, OPENBLAS_NUM_THREADS="2")
    assert answer.stdout == "[[1], [1], [1]] [2]\n[2]\n[1] [2]\n[1]\n[2]\n", answer.stderr
