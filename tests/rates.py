"""Rates of a machine with an H200, good enough to choose cuts by."""

from dataclasses import replace

from wavetrim.kernels.schedule.cuts import Rates, find_fastest
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import cut_steps

_FLOPS_A_SECOND = {2: 700e12, 4: 52.5e12, 8: 60.5e12, 16: 15.1e12}  # by the bytes of an element


def make_rates(problem, **changes):
    """The rates of its link and its fastest kernels for a problem."""
    wave = 2 * problem.slots * problem.tile_m * problem.tile_n
    rates = Rates(
        in_bytes_per_second=55.2e9,
        out_bytes_per_second=55.2e9,
        duplex=1.2,
        call_seconds=50e-6,
        step_seconds=13e-6,
        row_seconds=40e-9,
        launch_seconds=5e-6,
        wave_seconds=0.0,
        depth_seconds=wave / _FLOPS_A_SECOND[problem.item_bytes],
        memory_bytes_per_second=3.5e12,
    )
    return replace(rates, **changes)


def plan_steps(problem, rates, gpu_memory_bytes):
    """The steps of a product by the fastest cut."""
    cut = find_fastest(problem, rates, gpu_memory_bytes).cut
    return cut_steps(problem, cut, gpu_memory_bytes)


def find_cut(c, a, **changes):
    """How C = A·B is cut for this machine."""
    problem = PanelProblem(*c.shape, a.shape[1], c.itemsize, 128, 128, 16, 132)
    return plan_steps(problem, make_rates(problem, **changes), 1 << 36).cut


RATES = make_rates(PanelProblem(1, 1, 1, 4, 128, 128, 16, 132))
"""Rates of float32 kernels with tiles of 128 x 128."""
