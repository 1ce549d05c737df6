"""Plans for other machines: supposed numbers, and a preset with this machine's CPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.errors import PlanError, ProblemError
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import ADDRESSABLE_BYTES, GemmProblem
from wavetrim.scheduler.profile.estimate import estimate_cpu
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import read_key, store_profile
from wavetrim.scheduler.profile.what_if import WhatIf, suppose

PROBLEM = GemmProblem(4096, 4096, 4096, "float64")
T4 = find_preset_profile("T4", cpu_threads=2)


def measure(threads: int, gflops: float, gpu: str = "none", day: int = 1) -> MachineProfile:
    """A calibration of this machine's CPU, stored together with a GPU."""
    cpu = estimate_cpu(threads)
    rates = tuple(replace(rate, gflops=gflops, source="measured") for rate in cpu.rates)
    return MachineProfile(
        "cpu",
        "measured on this machine",
        replace(cpu, rates=rates),
        key={**read_key(None, threads), "gpu_uuid": gpu},
        measured_at=f"2026-01-0{day}T00:00:00+00:00",
    )


def test_without_other_numbers_the_profile_is_unchanged() -> None:
    assert suppose(T4, WhatIf(), "float64") is T4


def test_supposed_numbers_replace_the_machines_and_are_named_as_such() -> None:
    more = suppose(T4, WhatIf(cpu_threads=64), "float64")
    assert more.cpu == replace(
        estimate_cpu(64, T4.gpu),
        rates=more.cpu.rates,
    )
    for rate, was in zip(more.cpu.rates, T4.cpu.rates, strict=True):
        assert rate.gflops == pytest.approx(32 * was.gflops)
        assert rate.source.endswith("scaled from 2 to 64 threads")
    asked = suppose(T4, WhatIf(cpu_gflops=900), "float64")
    assert asked.find_cpu_rate("float64").gflops == 900
    assert "as asked" in asked.find_cpu_rate("float64").source
    assert asked.find_cpu_rate("float32") == T4.find_cpu_rate("float32")
    linked = suppose(T4, WhatIf(link_gbytes_per_second=50), "float64")
    assert {link.in_gbytes_per_second for link in linked.links} == {50}
    assert all("as asked" in link.source for link in linked.links)


def test_more_threads_rate_or_link_is_faster_and_moves_f() -> None:
    plans = {
        name: choose_plan(PROBLEM, suppose(T4, what_if, "float64"))
        for name, what_if in {
            "none": WhatIf(),
            "threads": WhatIf(cpu_threads=16),
            "rate": WhatIf(cpu_gflops=480),
        }.items()
    }
    seconds = {name: plan.predicted.total_seconds for name, plan in plans.items()}
    assert plans["threads"].f > plans["none"].f
    assert plans["rate"].f > plans["none"].f
    assert seconds["threads"] < seconds["none"]
    assert seconds["rate"] < seconds["none"]
    short = GemmProblem(16384, 16384, 256, memory="pinned")
    faster = choose_plan(short, suppose(T4, WhatIf(link_gbytes_per_second=100), "float32"))
    assert faster.predicted.total_seconds < choose_plan(short, T4).predicted.total_seconds
    assert "as asked" in describe_plan(plans["rate"])["profile"]["cpu"]["source"]


def test_a_supposed_link_applies_to_every_gpu() -> None:
    two = find_preset_profile("H200 x2")
    square = GemmProblem(16384, 16384, 16384, memory="pinned")
    plan = choose_plan(square, suppose(two, WhatIf(link_gbytes_per_second=25), "float32"))
    first, second = (len(part.rows) for part in plan.gpu_parts)
    assert abs(first - second) < 0.05 * square.m, "GPUs that are alike take equal parts"


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"cpu_threads": 0}, "cpu_threads"),
        ({"cpu_gflops": float("nan")}, "cpu_gflops"),
        ({"cpu_gflops": -1.0}, "cpu_gflops"),
        ({"link_gbytes_per_second": float("inf")}, "link_gbytes_per_second"),
    ],
)
def test_impossible_numbers_are_refused(numbers: dict[str, float], field: str) -> None:
    with pytest.raises(PlanError, match=f"{field} is .*; it must be "):
        WhatIf(**numbers)  # type: ignore[arg-type]


def test_a_machine_without_a_gpu_has_no_link_to_replace() -> None:
    cpu = find_preset_profile("cpu", cpu_threads=2)
    with pytest.raises(PlanError, match="link_gbytes_per_second is 9; it must be left out"):
        suppose(cpu, WhatIf(link_gbytes_per_second=9), "float32")


def test_a_preset_is_combined_with_the_newest_calibrated_cpu(tmp_path: Path) -> None:
    provider = ProfileProvider(directory=tmp_path, devices=(), cpu_threads=2)
    assert provider.find("T4").cpu == T4.cpu
    for gflops, gpu, day in ((70.0, "GPU-1", 1), (80.0, "none", 3), (75.0, "GPU-2", 2)):
        store_profile(measure(2, gflops, gpu, day), tmp_path)
    store_profile(measure(3, 99.0, day=4), tmp_path)
    (tmp_path / "broken.json").write_text("{")
    found = provider.find("T4")
    assert found.find_cpu_rate("float64").gflops == 80.0
    assert found.find_cpu_rate("float64").source == "measured"
    assert found.cpu.beside_gpu == T4.cpu.beside_gpu
    assert found.links == T4.links


def test_an_ambiguous_preset_is_refused_with_its_matches() -> None:
    with pytest.raises(PlanError, match=r"must be one of A100 SXM 40, A100 SXM 80$"):
        find_preset_profile("a100", cpu_threads=2)


def test_a_product_beyond_memory_is_refused_with_both_sizes() -> None:
    GemmProblem(2**22, 2**22, 2**10).check_fits()
    huge = GemmProblem(2**23, 2**23, 1)
    assert huge.operand_bytes > ADDRESSABLE_BYTES
    with pytest.raises(ProblemError, match=r"take 262,144\.1 GiB, and a process can address 131,0"):
        huge.check_fits()
    pinned = GemmProblem(2**15, 2**15, 2**15, memory="pinned")
    pinned.check_fits()
    pinned.check_fits(2**34)
    with pytest.raises(ProblemError, match=r"take 12\.0 GiB, and this machine has 8\.0 GiB"):
        pinned.check_fits(2**33)
    replace(pinned, memory="pageable").check_fits(2**33)
