"""Memory nodes: the cores near a device, and threads that stay on them."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from wavetrim.kernels.transfer.nodes import find_cores, stay_beside


@pytest.mark.parametrize(
    ("node", "listed", "cores"),
    [
        ("1", "0-3,8", {0, 1, 2, 3, 8}),
        ("0", "5", {5}),
        ("-1", "0-3", set()),
        ("0", "", set()),
        ("none", "0-3", set()),
    ],
)
def test_the_cores_near_a_device_are_read(tmp_path, node, listed, cores):
    device = tmp_path / "0000:3b:00.0"
    device.mkdir()
    (device / "numa_node").write_text(f"{node}\n")
    (device / "local_cpulist").write_text(f"{listed}\n")
    assert find_cores("0000:3B:00.0", tmp_path) == cores
    assert find_cores("0000:5E:00.0", tmp_path) == frozenset()


def test_only_the_calling_thread_stays_on_the_cores():
    usable = os.sched_getaffinity(0)
    some = frozenset(sorted(usable)[:1])
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(threading.get_native_id).result()
        with stay_beside(some):
            assert os.sched_getaffinity(0) == some
            assert os.sched_getaffinity(other) == usable
    assert os.sched_getaffinity(0) == usable
    with stay_beside(frozenset([4095])):  # not there
        assert os.sched_getaffinity(0) == usable
