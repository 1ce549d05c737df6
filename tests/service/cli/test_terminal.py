"""What commands draw: plots, timelines, progress bars and figures with units."""

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Prediction
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.cli.display import show_bytes, show_share
from wavetrim.service.cli.plot import CHOSEN, SHORTEST_WIDTH, TOTAL, draw_curve, draw_timeline
from wavetrim.service.cli.units import format_bytes, format_gflops, format_seconds


@st.composite
def splits(draw: st.DrawFn) -> tuple[Callable[[int], Prediction], int, int]:
    """A staircase and a line, its best F, and M."""
    m, wave_rows = draw(st.integers(1, 3000)), draw(st.integers(1, 200))
    wave_seconds, row_seconds = (draw(st.floats(1e-7, 1e-1)) for _ in range(2))

    def predict(f: int) -> Prediction:
        return Prediction(-(-(m - f) // wave_rows) * wave_seconds, f * row_seconds)

    return predict, min(range(m + 1), key=lambda f: predict(f).total_seconds), m


@given(splits(), st.integers(SHORTEST_WIDTH, 200))
def test_a_plot_fits_and_marks_the_chosen_f_below_every_other_total(
    split: tuple[Callable[[int], Prediction], int, int], width: int
) -> None:
    lines = draw_curve(*split, width=width).plain.splitlines()
    assert max(map(len, lines)) <= width
    area = [line.partition("│")[2] for line in lines if "│" in line]
    (best,) = [y for y, line in enumerate(area) if CHOSEN in line]
    (axis,) = [line for line in lines if "└" in line]
    assert area[best].index(CHOSEN) == axis.partition("└")[2].index("┴")
    assert all(TOTAL not in line for line in area[best + 1 :])
    columns = zip(*(line.ljust(width) for line in area), strict=True)
    assert all({TOTAL, CHOSEN} & set(column) for column in [*columns][: width - 12])
    assert any(f"F = {split[1]}" in line for line in lines)


def test_each_wave_is_a_line_of_the_plot_and_the_axis_tells_them_apart() -> None:
    profile = find_profile("T4", devices=(), directory=None, cpu_threads=2)
    problem = GemmProblem(4096, 4096, 4096, "float64")
    plan = choose_plan(problem, profile, PlanOptions("cublas", f=448))
    wave_seconds = plan.predict(0).gpu_seconds / plan.waves_gpu_only
    plot = draw_curve(plan.predict, plan.f, 4096, step_seconds=wave_seconds, width=80).plain
    area = [line.split("│") for line in plot.splitlines() if "│" in line]
    stairs = [line for _, line in area if TOTAL in line.partition("┊")[0]]
    assert len(stairs) >= plan.waves_gpu_only - plan.waves == 6
    labels = [label.strip() for label, _ in area if label.strip()]
    assert len({*labels} - {"0 s"}) == len(labels) == 6


def make_queue(device: str, work: str, *spans: tuple[float, float]) -> dict[str, Any]:
    """A queue of a plan's schedule."""
    told = [{"begin_seconds": begin, "end_seconds": end} for begin, end in spans]
    return {"device": device, "queue": work, "spans": told}


def test_a_queue_is_a_line_of_the_timeline_named_by_its_gpu_and_a_wait_is_a_gap() -> None:
    queues = [
        make_queue("cuda:0", "copy in", (0.0, 1.0)),
        make_queue("cuda:0", "kernel", (1.0, 2.0), (3.0, 3.1), (3.5, 4.0)),
    ]
    drawn = draw_timeline(queues, width=17).plain.splitlines()
    assert drawn == ["copy in  ██", "kernel     ██  ▂█", "         0 4.00 s"]
    queues += [make_queue("cuda:2", "kernel", (0.0, 1.0)), make_queue("cpu", "cpu", (0.0, 1.0))]
    names = [line.partition("  ")[0] for line in draw_timeline(queues, width=40).plain.splitlines()]
    assert [name.rstrip(" ▂█") for name in names[:4]] == [
        "cuda:0 copy in", "cuda:0 kernel", "cuda:2 kernel", "CPU",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["[red]A.npy", "[/]A.npy", ":smile:.npy", "[bold", "A[0].npy"])
def test_a_bar_shows_a_files_name_as_it_is(name: str) -> None:
    shown = io.StringIO()
    with show_bytes(Console(file=shown, width=100)) as move:
        move(f"upload {name}", 5, 10)
    assert f"upload {name} " in shown.getvalue()


def test_a_bar_ends_at_100_unless_it_is_broken_off() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    with show_share(console, "measure") as move:
        move(0.5, "CPU")
    assert shown.getvalue().rindex("100%") > shown.getvalue().index("measure CPU")
    shown.seek(0)
    shown.truncate()
    with contextlib.suppress(KeyboardInterrupt), show_share(console, "measure") as move:
        move(0.25)
        raise KeyboardInterrupt
    assert "25%" in shown.getvalue()
    assert "100%" not in shown.getvalue()


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (format_seconds(0.0), "0 s"),
        (format_seconds(4.2e-9), "4.20 ns"),
        (format_seconds(0.00012345), "123 µs"),
        (format_seconds(0.99999), "1.00 s"),
        (format_seconds(3600.0), "3600 s"),
        (format_seconds(1.9990, apart_seconds=1e-3), "1.999 s"),
        (format_bytes(1023), "1023 B"),
        (format_bytes(16 * 2**20), "16.0 MiB"),
        (format_gflops(473), "473 GFLOP/s"),
        (format_gflops(66_900), "66.9 TFLOP/s"),
    ],
)
def test_figures_have_three_digits_and_a_unit(shown: str, text: str) -> None:
    assert shown == text
