"""How long the GPU waits while a product streams through it, by a simulation of its steps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import Machine, Schedule
from wavetrim.kernels.panels import PanelProblem
from wavetrim.kernels.steps import plan_steps

MEMORY_BYTES = 1 << 36
SIZES = st.one_of(st.integers(1, 300), st.integers(1, 9000))


def describe(m: int, n: int, k: int, item_bytes: int = 4) -> PanelProblem:
    tile = (128, 256, 16) if item_bytes == 4 else (64, 128, 16)
    return PanelProblem(m, n, k, item_bytes, *tile, 132, splits_tail=item_bytes == 4)


def simulate(problem: PanelProblem) -> Schedule:
    return Schedule(problem, plan_steps(problem, MEMORY_BYTES).steps)


@settings(max_examples=60, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, item_bytes=st.sampled_from([4, 8]))
def test_no_schedule_is_faster_than_the_link_and_the_kernels(
    m: int, n: int, k: int, item_bytes: int
) -> None:
    schedule, machine = simulate(describe(m, n, k, item_bytes)), Machine()
    inward = (m * k + k * n) * item_bytes / machine.one_way
    outward = m * n * item_bytes / machine.one_way
    assert schedule.seconds > max(inward, outward, 2 * m * n * k / machine.operations)
    assert 0 < schedule.idle_seconds < schedule.seconds


@pytest.mark.parametrize("size", [6144, 8192, 12_000, 16_384])
def test_the_gpu_waits_for_a_tenth_of_the_time_at_most(size: int) -> None:
    schedule = simulate(describe(size, size, size))
    assert schedule.idle_seconds < 0.1 * schedule.seconds


@pytest.mark.parametrize(
    ("shape", "item_bytes", "measured_seconds"),
    [
        ((4096, 4096, 4096), 4, 3.77e-3),
        ((8192, 8192, 8192), 4, 22.2e-3),
        ((3072, 3072, 3072), 4, 2.08e-3),
        ((1531, 7919, 3001), 4, 2.85e-3),
        ((4096, 11_008, 4096), 4, 8.25e-3),
        ((256, 8192, 8192), 4, 5.60e-3),
        ((65_536, 256, 256), 4, 1.80e-3),
        ((32_768, 32_768, 4096), 4, 168.1e-3),
        ((4096, 4096, 4096), 8, 5.96e-3),
        ((8192, 8192, 8192), 8, 27.7e-3),
        ((6144, 6144, 6144), 8, 14.8e-3),
        ((4096, 11_008, 4096), 8, 15.2e-3),
    ],
)
def test_what_was_measured_on_an_h200_is_near_what_is_simulated(
    shape: tuple[int, int, int], item_bytes: int, measured_seconds: float
) -> None:
    problem = describe(*shape, item_bytes)
    machine = Machine(operations=52.5e12 if item_bytes == 4 else 60.5e12)
    schedule = Schedule(problem, plan_steps(problem, MEMORY_BYTES).steps, machine)
    assert schedule.seconds == pytest.approx(measured_seconds, rel=0.08)
