"""The outline of a product's cut is near the cut that the pipeline makes."""

import pytest

from benchmarks.host_suite import ALL_SHAPES
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.panels import PanelProblem
from wavetrim.kernels.steps import plan_steps
from wavetrim.scheduler.problem import MEMORIES, GemmProblem
from wavetrim.scheduler.stream import outline_stream
from wavetrim.scheduler.waves import WaveGrid

SLOTS = 132
MEMORY_BYTES = 100 << 30


@pytest.mark.parametrize("kernel", [("bulk", "128x256"), ("register", "64x128"), ("cublas", None)])
@pytest.mark.parametrize("shape", ALL_SHAPES)
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("slots", [SLOTS, 32, 4])
def test_the_outline_is_near_the_real_cut(slots, memory, shape, kernel):
    spec = find_kernel(kernel[0], "float32", kernel[1])
    tile, problem = spec.tile, GemmProblem(*shape, memory=memory)
    panels = PanelProblem(
        *(*shape, 4, tile.m, tile.n, tile.k, slots),
        splits_tail=spec.splits_tail,
        staged=memory == "pageable",
        gpu_share=slots / SLOTS,
    )
    steps = plan_steps(panels, MEMORY_BYTES).steps
    first = [step for step in steps if step.rows.start == 0]
    grid = WaveGrid(problem.n, tile.m, tile.n, slots)
    share = slots / SLOTS
    outline = outline_stream(problem, grid, splits_tail=spec.splits_tail, gpu_share=share)
    assert outline.first_steps == len(first)
    # With few slots the fullest waves may be of twice as many rows.
    allowed = 4 + len(steps) / (4 if slots == SLOTS else 3)
    assert abs(outline.count_steps(problem.m) - len(steps)) <= allowed
    first_rows = len(first[0].rows)
    if not outline.by_columns:
        assert abs(outline.lead_share - len(first[0].columns) / problem.n) <= 0.1
        assert outline.lead_steps == sum(step.columns == first[0].columns for step in first)
    assert first_rows / 2.3 <= outline.first_rows <= 2.3 * first_rows


def test_fewer_rows_have_no_more_steps():
    grid = WaveGrid(4096, 128, 256, SLOTS)
    outline = outline_stream(GemmProblem(50_000, 4096, 4096), grid, splits_tail=True)
    steps = [outline.count_steps(rows) for rows in range(1, 50_001)]
    assert steps == sorted(steps)
