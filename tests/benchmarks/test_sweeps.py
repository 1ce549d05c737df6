"""Sweeps of F: which F are measured, for how long, and what is written."""

from pathlib import Path

import pytest

from benchmarks.common.operands import draw_operands
from benchmarks.host.sweep import (
    Sweep,
)
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.profile.store import find_profile


@pytest.mark.gpu
def test_a_sweep_finds_the_time_of_every_f(tmp_path: Path) -> None:
    operands = draw_operands((1500, 1024, 1024), "float32")
    devices = list_devices()[:1]
    profile = find_profile(None, devices=devices, directory=None, cpu_threads=2)
    with Executor(cache_dir=tmp_path, devices=devices, cpu_threads=2) as executor:
        row = Sweep(executor, profile, operands.problem).measure(operands, "quiet", 1.0)
    assert row.regret >= 1.0
    assert row.f in {point[0] for point in row.curve}
    assert all(point[1] > 0 and point[2] > 0 for point in row.curve)
    assert min(row.gpu_alone_seconds, *row.measured_seconds.values()) >= 0
