"""The cost curves of one product on one machine."""

from scheduler.candidates import Candidate
from scheduler.cost import CpuCurve, GpuCurve
from scheduler.machine import MachineProfile
from scheduler.problem import GemmProblem
from scheduler.waves import WaveGrid, divide_up

EDGE_BYTES = 4 * 2**20
"""Bytes of A and C that the pipeline copies in before the first kernel, or out after the last."""


def build_cpu_curve(problem: GemmProblem, profile: MachineProfile, *, beside_gpu: bool) -> CpuCurve:
    """The CPU's curve, with all its threads or with those left while the GPU is fed."""
    rate = profile.find_cpu_rate(problem.dtype)
    cpu = profile.cpu
    share = cpu.threads_beside_gpu / cpu.threads / cpu.beside_gpu_stretch if beside_gpu else 1.0
    return CpuCurve(
        row_seconds=2 * problem.n * problem.k / (rate.gflops * 1e9 * share),
        startup_rows=rate.startup_rows,
        call_seconds=rate.call_seconds,
        row_quantum=rate.row_quantum,
    )


def build_gpu_curve(
    problem: GemmProblem,
    profile: MachineProfile,
    candidate: Candidate,
    sms: int | None = None,
    *,
    beside_cpu: bool,
) -> GpuCurve:
    """The GPU's curve with one kernel.

    Args:
        problem: The product.
        profile: The machine.
        candidate: The kernel, and its staircase there.
        sms: Multiprocessors that it is held to; None for all. A wave then holds as many blocks
            less, and takes as long.
        beside_cpu: Whether the CPU computes at the same time, which makes copies take longer.
    """
    gpu, link, spec, model = profile.gpu, profile.link, candidate.spec, candidate.model
    assert gpu is not None, "only a machine with a GPU runs kernels"
    assert link is not None, "a GPU is at the end of a link"
    held = gpu.sm_count if sms is None else spec.count_held_sms(sms, gpu.sm_count)
    slots = max(1, model.slots * held // gpu.sm_count)
    stretch = link.beside_cpu_stretch if beside_cpu else 1.0
    in_rate = link.in_gbytes_per_second * 1e9 / stretch
    out_rate = link.out_gbytes_per_second * 1e9 / stretch
    return GpuCurve(
        grid=WaveGrid(problem.n, spec.tile.m, spec.tile.n, slots),
        wave_seconds=model.wave_seconds + model.wave_k_seconds * problem.k,
        split_steps=divide_up(problem.k, spec.tile.k) if spec.splits_tail else None,
        launch_seconds=model.launch_seconds,
        b_seconds=problem.b_bytes / in_rate,
        row_in_seconds=problem.a_row_bytes / in_rate,
        row_out_seconds=problem.c_row_bytes / out_rate,
        edge_rows=max(1, EDGE_BYTES // (problem.a_row_bytes + problem.c_row_bytes)),
        call_seconds=link.call_seconds,
    )
