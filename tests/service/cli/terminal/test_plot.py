from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rates import make_rates
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.scheduler.model.cost import CpuCurve
from wavetrim.scheduler.model.gpu_curve import GpuCurve
from wavetrim.scheduler.model.waves import WaveGrid
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Prediction
from wavetrim.scheduler.planning.split import split_rows
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.cli.terminal.plot import ASCII, SHORTEST_WIDTH, UNICODE, draw_curve

Predict = Callable[[int], Prediction]


@st.composite
def splits(draw: st.DrawFn) -> tuple[Predict, int, int]:
    """A product's curves, its best F, and M."""
    m = draw(st.integers(1, 3000))
    tile_m = draw(st.integers(1, 200))
    problem = PanelProblem(
        *(m, draw(st.integers(1, 2000)), 64, 4),
        *(tile_m, draw(st.integers(1, 200)), 16, draw(st.integers(1, 300))),
    )
    rates = make_rates(problem, depth_seconds=draw(st.floats(1e-8, 1e-2)))
    gpu = GpuCurve(problem, rates, 1 << 40)
    cpu = CpuCurve(draw(st.floats(1e-7, 1e-1)), row_quantum=draw(st.integers(1, 64)))

    def predict(f: int) -> Prediction:
        return Prediction(gpu.seconds(m - f), cpu.seconds(f))

    return predict, split_rows(m, [gpu, cpu])[1], m


def find_areas(text: str, axis: str) -> list[str]:
    """The lines between the axes, without labels."""
    return [line.split(axis, 1)[1] for line in text.splitlines() if axis in line]


@given(splits(), st.integers(SHORTEST_WIDTH, 200), st.booleans())
def test_no_line_is_wider_than_asked(
    split: tuple[Predict, int, int], width: int, ascii_only: bool
) -> None:
    plot = draw_curve(*split, width=width, ascii_only=ascii_only).plain
    assert max(map(len, plot.splitlines())) <= width
    assert plot.isascii() or not ascii_only


@given(splits(), st.integers(SHORTEST_WIDTH, 200))
def test_the_chosen_f_is_marked_once_and_named(split: tuple[Predict, int, int], width: int) -> None:
    lines = draw_curve(*split, width=width).plain.splitlines()
    area = find_areas("\n".join(lines), UNICODE.axis_y)
    marked = [line.index(UNICODE.chosen) for line in area if UNICODE.chosen in line]
    (axis,) = [line for line in lines if UNICODE.corner in line]
    assert marked == [axis.split(UNICODE.corner)[1].index(UNICODE.tick)]
    assert any(f"F = {split[1]}" in line for line in lines)


@given(splits(), st.integers(SHORTEST_WIDTH, 200))
def test_nothing_is_drawn_below_the_best_total(split: tuple[Predict, int, int], width: int) -> None:
    area = find_areas(draw_curve(*split, width=width).plain, UNICODE.axis_y)
    best = next(y for y, line in enumerate(area) if UNICODE.chosen in line)
    assert all(UNICODE.total not in line for line in area[best + 1 :])


@given(splits())
def test_every_column_has_a_total(split: tuple[Predict, int, int]) -> None:
    area = find_areas(draw_curve(*split, width=80, ascii_only=True).plain, ASCII.axis_y)
    for column in zip(*(line.ljust(68) for line in area), strict=True):
        assert {ASCII.total, ASCII.chosen} & set(column)


def test_microseconds_are_written_in_ascii() -> None:
    plot = draw_curve(lambda f: Prediction(2e-5, f * 1e-6), 0, 9, width=40, ascii_only=True).plain
    assert plot.isascii()
    assert " 20.0 us |" in plot


def test_each_wave_is_a_line_and_the_axis_tells_them_apart() -> None:
    profile = find_profile("T4", devices=(), directory=None, cpu_threads=2)
    plan = choose_plan(GemmProblem(4096, 4096, 4096, "float64"), profile)
    assert (plan.waves, plan.waves_gpu_only) == (46, 52)
    assert plan.gpu_curve is not None
    wave_seconds = plan.gpu_curve.seconds(4096) / 52
    plot = draw_curve(plan.predict, plan.f, 4096, step_seconds=wave_seconds, width=80).plain
    area = find_areas(plot, UNICODE.axis_y)
    stairs = [y for y, line in enumerate(area) if UNICODE.total in line.partition("┊")[0]]
    assert len(stairs) >= plan.waves_gpu_only - plan.waves
    labels = [line.split(UNICODE.axis_y)[0].strip() for line in plot.splitlines()[: len(area)]]
    shown = [label for label in labels if label]
    assert len(shown) == len(set(shown)) == 6
    assert shown[-1] != "0 s"


def test_waves_that_are_a_thousandth_have_labels_with_more_digits() -> None:
    def predict(f: int) -> Prediction:
        return Prediction(2.0 - f // 8 * 1e-3, f * 0.125)

    plot = draw_curve(predict, 15, 4000, step_seconds=1e-3, width=80).plain
    labels = {line.split(UNICODE.axis_y)[0].strip() for line in plot.splitlines()[:16]} - {""}
    assert len(labels) == 6


def test_the_parts_are_told_apart_by_their_characters() -> None:
    def predict(f: int) -> Prediction:
        return Prediction(1.0 if f < 50 else 0.5, f / 100)

    plot = draw_curve(predict, 50, 100, width=72).plain
    area = find_areas(plot, UNICODE.axis_y)
    at_f = next(line.index(UNICODE.chosen) for line in area if UNICODE.chosen in line)
    for line in area:
        assert UNICODE.cpu not in line[at_f + 1 :], "right of F the CPU part is the total"
        assert UNICODE.gpu not in line[:at_f], "left of F the GPU part is the total"
    assert any(UNICODE.cpu in line for line in area)
    assert any(UNICODE.gpu in line for line in area)


def test_a_wave_less_is_a_step_down() -> None:
    grid = WaveGrid(n=512, tile_m=32, tile_n=32, slots=64)

    def predict(f: int) -> Prediction:
        return Prediction(grid.count_waves(512 - f) * 1.0, 0.0)

    assert (predict(0).gpu_seconds, predict(128).gpu_seconds) == (4.0, 3.0)
    plot = draw_curve(predict, 128, 512, width=76, height=5).plain
    rows = [line.rstrip() for line in find_areas(plot, UNICODE.axis_y)]
    levels = [next(y for y, line in enumerate(rows) if line[x : x + 1].strip()) for x in (0, 30)]
    assert levels[0] < levels[1]


@pytest.mark.parametrize(("f", "m"), [(0, 1), (1, 1), (0, 7), (7, 7)])
def test_the_ends_of_the_range_are_drawn(f: int, m: int) -> None:
    def predict(rows: int) -> Prediction:
        return Prediction(float(m - rows), rows * 0.5)

    assert f"F = {f}" in draw_curve(predict, f, m, width=40).plain
