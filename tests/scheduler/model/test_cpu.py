"""The CPU's model: caches, and the rates of one thread and of all."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.cpu.model import find_core_cache_bytes, find_largest_cache_bytes
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate
from wavetrim.scheduler.model.curves import build_cpu_curve
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.scheduler.profile.store import build_preset_profile

RATE = CpuRate(
    "float32", gflops=1000.0, startup_rows=0.0, call_seconds=0.0, row_quantum=1, source="a test",
    element_seconds=2e-10, copy_columns=40.0, cached_element_seconds=2e-11, cached_copy_columns=8.0,
)  # fmt: skip


def make_profile(rate: CpuRate = RATE, *, cache_bytes: int = 0) -> MachineProfile:
    profile = build_preset_profile(PRESETS[0], "a test", 16)
    return replace(profile, cpu=replace(profile.cpu, rates=(rate,), cache_bytes=cache_bytes))


def find_row_seconds(m: int, cache_bytes: int) -> float:
    profile = make_profile(cache_bytes=cache_bytes)
    return build_cpu_curve(GemmProblem(m, 1000, 200), profile).row_seconds


def test_rows_that_caches_hold_are_cheaper_by_their_packing_and_writing():
    held, not_held = find_row_seconds(4000, 2**30), find_row_seconds(4000, 0)
    saved = 2 * 200 * (40 - 8) / 1e12 + 1000 * (2e-10 - 2e-11)
    assert not_held - held == pytest.approx(saved)


@given(st.integers(1000, 10**6), st.integers(1000, 10**6))
def test_a_taller_product_has_no_cheaper_rows(m: int, more: int):
    assert find_row_seconds(m, 2**24) <= find_row_seconds(m + more, 2**24) * 1.000001


@given(st.integers(1, 2**40), st.integers(0, 2**40))
def test_the_share_beyond_the_caches_is_what_they_leave(matrix_bytes: int, cache_bytes: int):
    share = CpuModel(4, (RATE,), (), cache_bytes).find_uncached_share(matrix_bytes)
    assert share * matrix_bytes == pytest.approx(max(0, matrix_bytes - cache_bytes), abs=1)


@pytest.mark.parametrize(
    ("alone_gflops", "taking", "gflops"),
    [(0.0, 1, 62.5), (0.0, 16, 1000.0), (150.0, 1, 150.0), (150.0, 4, 600.0), (150.0, 8, 1000.0)],
)
def test_few_threads_have_their_own_rate_until_it_is_that_of_all(
    alone_gflops: float, taking: int, gflops: float
):
    assert replace(RATE, alone_gflops=alone_gflops).find_gflops(taking, 16) == gflops


def test_a_call_of_few_threads_costs_less_than_one_of_all():
    profile = make_profile(replace(RATE, call_seconds=1e-4, alone_seconds=1e-6))
    few, all_threads = (
        build_cpu_curve(GemmProblem(size, size, size), profile).call_seconds for size in (256, 2000)
    )
    assert 1e-6 < few < all_threads == 1e-4


def test_a_core_has_some_cache_or_the_kernel_does_not_tell():
    own, largest = find_core_cache_bytes(), find_largest_cache_bytes()
    assert (own, largest) == (0, 0) or 2**14 <= own <= largest <= 2**32
