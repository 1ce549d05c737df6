"""Plans for machines that are not there: supposed numbers, and the least memory."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.profile.test_profile import find
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import ITEM_BYTES, GemmProblem
from wavetrim.scheduler.profile.corrections import NO_CORRECTIONS
from wavetrim.scheduler.profile.machine import LEAST_MEMORY_BYTES
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if

T4 = find("T4", cpu_threads=2)


def find_seconds(cpu):
    """Seconds of a unit of all that the threads do together."""
    rates = (
        cpu.float32_gflops, cpu.float64_gflops, cpu.read_gbytes_per_second,
        cpu.write_gbytes_per_second, cpu.find_gflops("complex128"),
    )  # fmt: skip
    return [1 / rate for rate in rates]


def test_without_other_numbers_the_profile_is_unchanged():
    assert apply_what_if(T4, WhatIf(), "float64") is T4
    assert apply_what_if(T4, WhatIf(cpu_threads=2), "float64") is T4


@given(st.integers(1, 512))
def test_twice_the_threads_take_half_the_seconds(threads):
    once, twice = (
        apply_what_if(T4, WhatIf(cpu_threads=count), "float64").cpu
        for count in (threads, 2 * threads)
    )
    assert find_seconds(twice) == pytest.approx([one / 2 for one in find_seconds(once)])
    assert twice.thread_gflops == once.thread_gflops
    assert twice.threads == 2 * threads
    more = apply_what_if(T4, WhatIf(cpu_threads=64), "float64")
    assert more.cpu.source.endswith("scaled to 64")


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_a_supposed_rate_is_that_of_its_element_type(dtype):
    cpu = apply_what_if(T4, WhatIf(cpu_gflops=900), dtype).cpu
    assert cpu.find_gflops(dtype) == pytest.approx(900)
    assert "as asked" in cpu.source
    assert T4.cpu.read_gbytes_per_second == cpu.read_gbytes_per_second


def test_a_supposed_link_is_that_of_every_gpu_and_kind_of_memory():
    two = apply_what_if(find("H200 x2"), WhatIf(link_gbytes_per_second=25), "float32")
    links = [link for gpu in two.gpus for link in gpu.links]
    assert len(links) == 4
    for link in links:
        assert (link.in_gbytes_per_second, link.out_gbytes_per_second) == (25, 25)
        assert "as asked" in link.source
    assert two.joint is None
    assert two.corrections is NO_CORRECTIONS


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex128"])
def test_products_are_planned_for_the_least_memory(dtype):
    profile = find("H200")
    profile = replace(profile, gpu=replace(profile.gpu, memory_bytes=LEAST_MEMORY_BYTES))
    kernels = list_kernels(dtype=dtype, compute_capability=profile.gpu.compute_capability)
    for shape in ((1, 1, 1), (4096, 4096, 4096), (65536, 64, 100_000)):
        problem = GemmProblem(*shape, dtype)
        for spec in kernels:
            if problem.k >= spec.least_k:
                options = PlanOptions(f=0, kernel=spec.name, tile=str(spec.tile))
                plan = choose_plan(problem, profile, options)
                assert math.isfinite(plan.predicted.total_seconds)
