"""The cost curves of one product on one machine."""

from kernels.catalog import KernelSpec
from scheduler.cost import CpuCurve, GpuCurve
from scheduler.machine import MachineProfile
from scheduler.problem import GemmProblem
from scheduler.waves import WaveGrid

EDGE_BYTES = 4 * 2**20
"""Bytes of A and C that the pipeline copies in before the first kernel, or out after the last."""


def build_cpu_curve(problem: GemmProblem, profile: MachineProfile, *, beside_gpu: bool) -> CpuCurve:
    """The CPU's curve, with all its threads or with those left while the GPU is fed."""
    rate = profile.find_cpu_rate(problem.dtype)
    share = profile.cpu.threads_beside_gpu / profile.cpu.threads if beside_gpu else 1.0
    return CpuCurve(
        row_seconds=2 * problem.n * problem.k / (rate.gflops * 1e9 * share),
        startup_rows=rate.startup_rows,
        call_seconds=rate.call_seconds,
        row_quantum=rate.row_quantum,
    )


def build_gpu_curve(
    problem: GemmProblem, profile: MachineProfile, spec: KernelSpec
) -> GpuCurve | None:
    """The GPU's curve with one kernel; None when the machine does not run that kernel."""
    model, link = profile.find_kernel_model(spec), profile.link
    if model is None or link is None:
        return None
    in_rate = link.in_gbytes_per_second * 1e9
    out_rate = link.out_gbytes_per_second * 1e9
    return GpuCurve(
        grid=WaveGrid(problem.n, spec.tile.m, spec.tile.n, model.slots),
        wave_seconds=model.wave_seconds + model.wave_k_seconds * problem.k,
        launch_seconds=model.launch_seconds,
        b_seconds=problem.b_bytes / in_rate,
        row_in_seconds=problem.a_row_bytes / in_rate,
        row_out_seconds=problem.c_row_bytes / out_rate,
        edge_rows=max(1, EDGE_BYTES // (problem.a_row_bytes + problem.c_row_bytes)),
        call_seconds=link.call_seconds,
    )
