"""The time of the GPU's rows: of one GPU, or of several that share them.

One GPU with one kernel is a `GpuSide` of one member: the product as its kernel cuts it, and the
rates of its link and kernel. Its time for some rows is that of the fastest of a dozen lists of
parts (`kernels/schedule`), and that list is what runs. Several GPUs take as long as their slowest
member (`team` builds them).

    wave    = slots · tile · (2 K / rate + element / device memory)      seconds
    slots   = multiprocessors that the kernel may use, times its blocks on each
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.cuts import Rates, Spans, find_bound, find_fastest, time_cut
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

ROW_SECONDS: Final = 4e-8
"""Time that a row adds to a page-locked copy of parts of rows; on an H100 7 to 47 ns for parts of 2
to 32 KiB (1f09f97)."""

STRAIGHT_SECONDS: Final[dict[Memory, float]] = {"pageable": 1.2e-3, "pinned": 4e-4}
"""Longest copies of a product that goes the straight way. To cut it would let copies overlap, which
saves a part of that time, and costs as much: some steps, or waking the threads that stage. In turns
with others on an H200, where 4e-4 s are 22 MB: 21 MB take 409 µs straight and 527 cut, 50 MB 957
and 901; from pageable memory 6 MB take 0.65 and 1.1 ms, 21 MB 1.8 and 1.4."""

STRAIGHT_CALL_SECONDS: Final = 4e-5
"""Time of a straight product without its bytes; 64³ takes 35 to 60 µs on an H100 and an H200."""

_THREADS_AN_SM: Final = 1024
_BLOCKS_AN_SM: Final = 16
"""Threads and blocks of a kernel without register tiles that fill a multiprocessor; chosen."""


class GpuRows(NamedTuple):
    """One GPU with one kernel.

    Attributes:
        problem: The product as the kernel cuts it, with the most rows that this GPU may get.
        rates: Rates of link and kernel.
        memory_bytes: Device memory for buffers.
    """

    problem: PanelProblem
    rates: Rates
    memory_bytes: int


class GpuPart(NamedTuple):
    """The part of C of one GPU in a plan.

    Attributes:
        position: Its position among the GPUs of the plan's profile.
        rows: Its rows of C.
        columns: Its columns of C.
        cut: How they are cut: the list of parts that is priced, and runs.
        seconds: Predicted seconds, uncorrected.
        problem: Its part of the product.
    """

    position: int
    rows: range
    columns: range
    cut: Cut
    seconds: float
    problem: PanelProblem

    @property
    def waves(self) -> int:
        """Waves of its rows."""
        return self.problem.count_waves(len(self.rows))


@dataclass(frozen=True)
class GpuSide:
    """The GPUs of a plan, with one kernel.

    Attributes:
        positions: Their positions among those of the profile.
        members: Each of them.
        spec: The kernel.
        columns: Columns of C of each GPU, which computes all rows of these; empty if they divide
            the rows.
        exchanges: Whether they exchange parts of B, so that it crosses the links once.
    """

    positions: tuple[int, ...]
    members: tuple[GpuRows, ...]
    spec: KernelSpec
    columns: tuple[range, ...] = ()
    exchanges: bool = False

    def divide(self, rows: int) -> list[int]:
        """Rows of each GPU: whole rows of tiles, by their speeds; all where columns are divided."""
        count = len(self.members)
        if self.columns or count == 1:
            return [rows] * count
        shares, left = [], rows
        for at, part in enumerate(self._speeds):
            tile_rows = round(left / self.spec.tile.m * part / sum(self._speeds[at:]) + 0.49)
            shares.append(min(left, tile_rows * self.spec.tile.m))
            left -= shares[-1]
        shares[-1] += left
        return shares

    @cached_property
    def _speeds(self) -> list[float]:
        """The relative speed of each GPU, from the lower bound of its time."""
        found = [find_bound(one.problem, one.problem.m, one.rates) for one in self.members]
        return [1 / seconds for seconds in found]

    def find_bound(self, rows: int) -> float:
        """A lower bound of the seconds for some rows, from the longest queue."""
        shares = zip(self.members, self.divide(rows), strict=True)
        return max(find_bound(one.problem, share, one.rates) for one, share in shares if share)

    def price(self, rows: int) -> tuple[GpuPart, ...]:
        """The parts of the GPUs that get rows, the fastest list of each, from the first row on."""
        parts: list[GpuPart] = []
        start = 0
        for at, (member, share) in enumerate(zip(self.members, self.divide(rows), strict=True)):
            if share == 0:
                continue
            columns = self.columns[at] if self.columns else range(member.problem.n)
            problem = replace(member.problem, m=share, n=len(columns))
            seconds, cut = find_fastest(problem, member.rates, member.memory_bytes)
            if self.exchanges and parts:  # they cut B alike
                cut = parts[0].cut
                seconds = time_cut(problem, cut, member.rates, member.memory_bytes)
            own_rows = range(start, start + share)
            parts.append(GpuPart(self.positions[at], own_rows, columns, cut, seconds, problem))
            start += 0 if self.columns else share
        return tuple(parts)

    def trace(self, part: GpuPart) -> list[Spans]:
        """When each launch of a part is at work."""
        spans: list[Spans] = []
        member = self.members[self.positions.index(part.position)]
        time_cut(part.problem, part.cut, member.rates, member.memory_bytes, spans)
        return spans

    def name_bottleneck(self) -> str:
        """What bounds the product of all rows: the call, copies in, copies out, or kernels."""
        problem, rates, _ = self.members[0]
        item_bytes, k, n = problem.item_bytes, problem.k, problem.n
        b_rows = 0 if problem.b_resident else n
        bounds = {
            "the call": rates.call_seconds,
            f"kernels in {self.spec.dtype}": rates.find_kernel_seconds(problem, problem.m, n, k),
            "copies in": (problem.m + b_rows) * k * item_bytes / rates.in_bytes_per_second,
            "copies out": problem.m * n * item_bytes / rates.out_bytes_per_second,
        }
        return max(bounds, key=lambda name: bounds[name])


def build_member(
    problem: GemmProblem,
    profile: MachineProfile,
    spec: KernelSpec,
    sms: int | None,
    *,
    is_alone: bool = False,
) -> GpuRows:
    """One GPU with one kernel.

    Args:
        problem: The product.
        profile: The GPU.
        spec: The kernel.
        sms: Limit of multiprocessors; None for all. It reduces the blocks of a wave in proportion,
            not its time.
        is_alone: Whether no other GPU has a part, so that the product may go the straight way.
    """
    is_straight = is_alone and sms is None and spec.is_cublas and can_go_straight(problem, profile)
    gpu = profile.gpu
    assert gpu is not None, "only a machine with a GPU runs kernels"
    panels = describe_product(
        spec,
        (problem.m, problem.n, problem.k),
        count_slots(spec, gpu.sm_count, sms),
        b_resident=problem.b_resident,
        is_straight=is_straight,
    )
    resident_bytes = problem.b_bytes - problem.copied_b_bytes
    memory_bytes = int(MEMORY_SHARE * gpu.memory_bytes) - resident_bytes
    rates = _build_rates(problem, profile, spec, is_straight=is_straight)
    return GpuRows(panels, rates, memory_bytes)


def count_slots(spec: KernelSpec, sm_count: int, sms: int | None = None) -> int:
    """Blocks that run at the same time: a block with register tiles fills a multiprocessor."""
    usable = sm_count if sms is None else spec.count_usable_sms(sms, sm_count)
    fills = spec.tiling is not None or spec.is_cublas
    return max(1, usable) * (1 if fills else min(_BLOCKS_AN_SM, _THREADS_AN_SM // spec.threads))


def can_go_straight(problem: GemmProblem, profile: MachineProfile) -> bool:
    """Whether a product by cuBLAS goes the straight way: its copies take so little time."""
    if problem.b_resident:
        return False
    item_bytes, m, n, k = problem.item_bytes, problem.m, problem.n, problem.k
    link = find_straight_link(problem, profile)
    in_seconds = (m + n) * k * item_bytes / (1e9 * link.in_gbytes_per_second)
    out_seconds = m * n * item_bytes / (1e9 * link.out_gbytes_per_second)
    return in_seconds + out_seconds <= STRAIGHT_SECONDS[problem.memory]


def find_straight_link(problem: GemmProblem, profile: MachineProfile) -> LinkModel:
    """The link of a straight product: the driver copies pageable memory in the calling thread."""
    link = replace(profile.find_link("pinned"), call_seconds=STRAIGHT_CALL_SECONDS)
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
    assert profile.gpu is not None, "only a machine with a GPU runs kernels"
    return profile.find_measured(spec) or estimate_rate(profile.gpu, spec)


def _build_rates(
    problem: GemmProblem, profile: MachineProfile, spec: KernelSpec, *, is_straight: bool
) -> Rates:
    """The rates of a machine's link and one kernel, without a CPU part."""
    gpu, link = profile.gpu, profile.find_link(problem.memory)
    if is_straight:
        link = find_straight_link(problem, profile)
    assert gpu is not None, "only a machine with a GPU runs kernels"
    rate = find_rate(profile, spec)
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
