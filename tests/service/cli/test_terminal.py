"""What commands draw: tables of splits, timelines, progress bars and figures with units."""

import io
import re

import pytest
from rich.console import Console

from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.cli.commands.plan import compare_splits
from wavetrim.service.cli.display import show_bytes
from wavetrim.service.cli.units import format_bytes, format_gflops, format_seconds


def compare(m, n, k, device, options):
    """The rows of seconds over F, as cells."""
    profile = find_profile(device, devices=(), directory=None, cpu_threads=2)
    plan = choose_plan(GemmProblem(m, n, k, "float64"), profile, options)
    shown = io.StringIO()
    Console(file=shown, width=80).print(compare_splits(plan))
    assert max(map(len, shown.getvalue().splitlines())) <= 80
    return [re.split(r"  +", line.strip()) for line in shown.getvalue().splitlines()[1:]]


def test_each_wave_has_a_row_of_seconds_over_f_and_the_chosen_one_is_marked():
    rows = compare(4096, 4096, 4096, "T4", PlanOptions("cublas", f=448))
    (chosen,) = [row for row in rows if row[-1].endswith("█ ← chosen")]
    assert chosen[:2] == ["448", "46"]
    waves = [int(row[1]) for row in rows]
    assert waves[: waves.index(46) + 1] == [*range(52, 45, -1)]
    gpu_seconds = [float(row[2].partition(" ")[0]) for row in rows if row[2].endswith(" ms")]
    assert gpu_seconds == sorted(gpu_seconds, reverse=True)


@pytest.mark.parametrize("name", ["[red]A.npy", "[/]A.npy", ":smile:.npy", "[bold", "A[0].npy"])
def test_a_bar_shows_a_files_name_as_it_is(name):
    shown = io.StringIO()
    with show_bytes(Console(file=shown, width=100)) as move:
        move(f"upload {name}", 5, 10)
    assert f"upload {name} " in shown.getvalue()


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (format_seconds(0.0), "0 s"),
        (format_seconds(4.2e-9), "4.20 ns"),
        (format_seconds(0.00012345), "123 µs"),
        (format_seconds(0.99999), "1.00 s"),
        (format_seconds(3600.0), "3600 s"),
        (format_bytes(1023), "1023 B"),
        (format_bytes(16 * 2**20), "16.0 MiB"),
        (format_gflops(473), "473 GFLOP/s"),
        (format_gflops(66_900), "66.9 TFLOP/s"),
    ],
)
def test_figures_have_three_digits_and_a_unit(shown, text):
    assert shown == text
