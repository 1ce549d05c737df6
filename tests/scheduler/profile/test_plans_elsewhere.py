"""Plans for machines that are not there: supposed numbers, and the least memory."""

import math
from dataclasses import replace

import pytest

from tests.scheduler.profile.test_profile import find
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import LEAST_MEMORY_BYTES


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex128"])
def test_products_are_planned_for_the_least_memory(dtype: str) -> None:
    profile = find("H200")
    assert profile.gpu is not None
    profile = replace(profile, gpu=replace(profile.gpu, memory_bytes=LEAST_MEMORY_BYTES))
    kernels = list_kernels(dtype=dtype, compute_capability=profile.gpu.compute_capability)
    for shape in ((1, 1, 1), (4096, 4096, 4096), (65536, 64, 100_000)):
        problem = GemmProblem(*shape, dtype)
        for spec in kernels:
            if problem.k >= spec.least_k:
                options = PlanOptions(f=0, kernel=spec.name, tile=str(spec.tile))
                plan = choose_plan(problem, profile, options)
                assert math.isfinite(plan.predicted.total_seconds)
