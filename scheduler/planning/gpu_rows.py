"""The time of one GPU's rows, by one kernel.

It is that of the fastest of a dozen lists of parts (`kernels/schedule`), and that list is what
runs. `team` adds up several GPUs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from wavetrim.kernels.schedule.cuts import (
    Rates,
    Spans,
    TimedCut,
    find_fastest,
    list_queues,
    time_cut,
)
from wavetrim.kernels.schedule.panels import Cut, PanelProblem, describe_product
from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.estimate import estimate_rate
from wavetrim.scheduler.profile.machine import KernelRate, LinkModel, MachineProfile

MEMORY_SHARE: Final = 0.9
"""Share of the device memory that a plan uses for buffers. Chosen: a plan does not know what is
free."""

LAUNCH_SECONDS: Final = 5e-6
"""Latency of a kernel launch; chosen, as 5 to 10 µs are seen on an H100 and an H200."""

STEP_SECONDS: Final[dict[Memory, float]] = {"pageable": 4e-5, "pinned": 1.3e-5}
"""Time of a step without its bytes: enqueueing it, and the latency of a copy. Page-locked memory:
13 to 20 µs on an H100 and an H200 with 16 cores (d9b6696f). Pageable memory: chosen."""

ROW_SECONDS: Final = 1e-7
"""Time that a row adds to a page-locked copy of parts of rows. On an H100 7 to 47 ns for parts of 2
to 32 KiB (1f09f97), on an H200 100 to 180: 8192³ and 6144³ of float64 took 0.8 and 0.5 ms longer in
six parts of K than in three (16 cores; 2fd990ed)."""

STRAIGHT_SECONDS: Final[dict[Memory, float]] = {"pageable": 1.6e-3, "pinned": 4e-4}
"""Longest copies of a product that takes the straight path. If it were cut, copies would overlap.
That saves a part of their time, and costs about as much: further steps, or waking the threads that
stage. In turns with others on an H200, where 4e-4 s are 22 MB: 21 MB take 409 µs straight and 527
cut, 50 MB 957 and 901. From pageable memory 6 and 10 MB take 0.92 and 1.20 ms straight, and staged
0.69 and 0.79 in a loop, but 1.8 to 2.4 in turns with other libraries (H200, 16 cores; cd54129e)."""

STRAIGHT_CALL_SECONDS: Final[dict[Memory, float]] = {"pageable": 2e-4, "pinned": 4e-5}
"""Time of a straight product without its bytes; 64³ takes 35 to 60 µs on an H100 and an H200. From
pageable memory 24x1666x64 takes 0.4 ms among other products on an H200, 0.1 of it for its bytes
(6b7f2779)."""

_THREADS_AN_SM: Final = 1024
_BLOCKS_AN_SM: Final = 16
"""Threads and blocks of a kernel without register tiles that fill a multiprocessor; chosen."""


@dataclass(frozen=True)
class GpuPart:
    """The rows of one GPU, and the kernel that computes them.

    Attributes:
        position: The GPU's position among those of the plan's profile.
        rows: Its rows of C.
        columns: Its columns of C.
        problem: The product of these rows and columns, as the kernel cuts it.
        rates: Rates of link and kernel.
        memory_bytes: Device memory for buffers.
        given_cut: How they are cut in place of the fastest way.
    """

    position: int
    rows: range
    columns: range
    problem: PanelProblem
    rates: Rates
    memory_bytes: int
    given_cut: Cut | None = None

    def take(self, rows: range, cut: Cut | None = None) -> "GpuPart":
        """The part with these rows of C, cut so, or in the fastest way."""
        return replace(self, rows=rows, problem=replace(self.problem, m=len(rows)), given_cut=cut)

    @cached_property
    def _timed(self) -> TimedCut:
        if self.given_cut is None:
            return find_fastest(self.problem, self.rates, self.memory_bytes)
        return TimedCut(self._time(self.given_cut), self.given_cut)

    def _time(self, cut: Cut, spans: list[Spans] | None = None) -> float:
        return time_cut(self.problem, cut, self.rates, self.memory_bytes, spans)

    @property
    def cut(self) -> Cut:
        """How it is cut: the list of parts that is priced, and runs."""
        return self._timed.cut

    @property
    def seconds(self) -> float:
        """Predicted seconds, uncorrected."""
        return self._timed.seconds

    @property
    def waves(self) -> int:
        """Waves of its rows."""
        return self.problem.count_waves(self.problem.m)

    def trace(self) -> list[Spans]:
        """When each launch is at work."""
        spans: list[Spans] = []
        self._time(self.cut, spans)
        return spans

    def name_bottleneck(self, dtype: str) -> str:
        """What bounds it: the call, copies in, copies out, or kernels."""
        queues = list_queues(self.problem, self.problem.m, self.rates)
        bounds = {"the call": self.rates.call_seconds, **queues}
        name = max(bounds, key=lambda name: bounds[name])
        return f"{name} in {dtype}" if name == "kernels" else name


def take_all_rows(
    problem: GemmProblem,
    machine: MachineProfile,
    position: int,
    spec: KernelSpec,
    *,
    sms: int | None,
    is_alone: bool,
) -> GpuPart:
    """All rows on one GPU of a machine, by one kernel.

    Args:
        problem: The product.
        machine: The machine.
        position: The GPU's position among those of the machine.
        spec: The kernel.
        sms: Limit of multiprocessors; None for all. It reduces the blocks of a wave in proportion,
            not its time.
        is_alone: Whether no other GPU has a part, so that the product may take the straight path.
    """
    profile = machine.gpus[position]
    is_straight = is_alone and sms is None and spec.is_cublas and can_go_straight(problem, profile)
    panels = describe_product(
        spec,
        (problem.m, problem.n, problem.k),
        count_slots(spec, profile.sheet.sm_count, sms),
        b_resident=problem.b_resident,
        is_straight=is_straight,
    )
    resident_bytes = problem.b_bytes - problem.copied_b_bytes
    memory_bytes = int(MEMORY_SHARE * profile.sheet.memory_bytes) - resident_bytes
    rates = build_rates(problem, profile, spec, is_straight=is_straight)
    return GpuPart(position, range(problem.m), range(problem.n), panels, rates, memory_bytes)


def count_slots(spec: KernelSpec, sm_count: int, sms: int | None = None) -> int:
    """Blocks that run at the same time: a block with register tiles fills a multiprocessor."""
    usable = sm_count if sms is None else spec.count_usable_sms(sms, sm_count)
    fills = spec.tiling is not None or spec.is_cublas
    return max(1, usable) * (1 if fills else min(_BLOCKS_AN_SM, _THREADS_AN_SM // spec.threads))


def can_go_straight(problem: GemmProblem, profile: MachineProfile) -> bool:
    """Whether a product by cuBLAS takes the straight path: its copies take so little time."""
    if problem.b_resident:
        return False
    return find_straight_seconds(problem, profile) <= STRAIGHT_SECONDS[problem.memory]


def find_straight_seconds(problem: GemmProblem, profile: MachineProfile) -> float:
    """Seconds of the copies of a straight product."""
    item_bytes, m, n, k = problem.item_bytes, problem.m, problem.n, problem.k
    link = find_straight_link(problem, profile)
    in_seconds = (m + n) * k * item_bytes / (1e9 * link.in_gbytes_per_second)
    return in_seconds + m * n * item_bytes / (1e9 * link.out_gbytes_per_second)


def find_straight_link(problem: GemmProblem, profile: MachineProfile) -> LinkModel:
    """The link of a straight product: the driver copies pageable memory in the calling thread."""
    link = replace(profile.find_link("pinned"), call_seconds=STRAIGHT_CALL_SECONDS[problem.memory])
    if problem.memory == "pinned":
        return link
    copied = profile.cpu.copy_gbytes_per_second
    return replace(
        link,
        in_gbytes_per_second=1 / (1 / link.in_gbytes_per_second + 1 / copied),
        out_gbytes_per_second=1 / (1 / link.out_gbytes_per_second + 1 / copied),
    )


def find_rate(profile: MachineProfile, spec: KernelSpec) -> KernelRate:
    """The rate of a kernel on a machine with a GPU: as measured, else estimated."""
    return profile.find_measured(spec) or estimate_rate(profile.sheet, spec)


def build_rates(
    problem: GemmProblem, profile: MachineProfile, spec: KernelSpec, *, is_straight: bool = False
) -> Rates:
    """The rates of a machine's link and one kernel, without a CPU part."""
    gpu, rate = profile.sheet, find_rate(profile, spec)
    link = profile.find_link(problem.memory)
    if is_straight:
        link = find_straight_link(problem, profile)
    wave_items = spec.tile.m * spec.tile.n * count_slots(spec, gpu.sm_count)
    return Rates(
        in_bytes_per_second=link.in_gbytes_per_second * 1e9,
        out_bytes_per_second=link.out_gbytes_per_second * 1e9,
        duplex=link.duplex,
        call_seconds=link.call_seconds,
        step_seconds=0.0 if is_straight else STEP_SECONDS[problem.memory],
        row_seconds=ROW_SECONDS if problem.memory == "pinned" and not is_straight else 0.0,
        launch_seconds=LAUNCH_SECONDS,
        wave_seconds=wave_items * problem.item_bytes / (gpu.memory_gbytes_per_second * 1e9),
        depth_seconds=2 * wave_items / (rate.gflops * 1e9),
        memory_bytes_per_second=gpu.memory_gbytes_per_second * 1e9,
    )
