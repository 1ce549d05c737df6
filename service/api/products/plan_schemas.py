"""Schemas of plans."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from wavetrim.scheduler.planning.drawing import MOST_SPANS, Work
from wavetrim.scheduler.problem import Memory
from wavetrim.scheduler.profile.what_if import (
    LEAST_RATE,
    MOST_GBYTES_PER_SECOND,
    MOST_GFLOPS,
    MOST_THREADS,
    WhatIf,
)
from wavetrim.service.api.expected_schemas import ExpectedView
from wavetrim.service.api.products.figure_schemas import MachineFigures, PlanProfile
from wavetrim.service.api.products.gpu_query import GpuQuery
from wavetrim.service.api.schemas import DtypeName

MAX_SIZE: Final = 10_000_000
"""The largest M, N or K of a plan; chosen."""

Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]

DeviceName = Annotated[
    str | None,
    Field(
        max_length=100,
        description="A preset, several of one (H200 x2), a local GPU (cuda:0, its name or its "
        "UUID) or cpu; without it, this machine with all of its GPUs.",
        examples=["H200"],
    ),
]


class PlanQuery(GpuQuery):
    """The product that a plan is made for: C[M,N] = A[M,K]·B[K,N]."""

    m: Size = Field(description="Rows of A and C.", examples=[8192])
    n: Size = Field(description="Columns of B and C.", examples=[8192])
    k: Size = Field(description="Columns of A and rows of B.", examples=[8192])
    dtype: DtypeName = Field("float32", description="Element type.")
    memory: Memory = Field(
        "pageable",
        description="The host memory that the operands lie in: pageable (any array, a mapped file) "
        "or pinned (page-locked, such as the service's own, which the GPU accesses directly).",
    )
    device: DeviceName = None
    resident: bool = Field(
        False,
        description="What if B were on the GPUs already, as a stored matrix is that was B of many "
        "jobs.",
    )
    drawing: bool = Field(
        False,
        description="Whether the answer is for drawings: it then has the schedule, too.",
    )
    queued: bool = Field(
        False,
        description="Whether the answer has `expected`, too: when the product would begin and end "
        "if it were posted as a job now, on this machine.",
    )
    cpu_threads: int | None = Field(
        None,
        ge=1,
        le=MOST_THREADS,
        description="What if the CPU had this many threads: its rates grow with them.",
        examples=[64],
    )
    cpu_gflops: float | None = Field(
        None,
        ge=LEAST_RATE,
        le=MOST_GFLOPS,
        description="What if the CPU alone had this rate in this element type, in GFLOP/s.",
        examples=[3000],
    )
    link_gbytes_per_second: float | None = Field(
        None,
        ge=LEAST_RATE,
        le=MOST_GBYTES_PER_SECOND,
        description="What if the GPU's link had this rate each way, in 1e9 bytes a second.",
        examples=[25],
    )

    @property
    def is_here(self) -> bool:
        """Whether the plan is for this machine as it is."""
        elsewhere = self.device is not None or self.find_described(None) is not None
        return not elsewhere and self.what_if == WhatIf()

    @property
    def what_if(self) -> WhatIf:
        """Numbers that replace the machine's own."""
        return WhatIf(self.cpu_threads, self.cpu_gflops, self.link_gbytes_per_second)


class Predicted(BaseModel):
    """Seconds that a plan should take."""

    gpu_seconds: float = Field(description="The GPU's part.")
    cpu_seconds: float = Field(description="The CPU's part.")
    total_seconds: float = Field(description="The longer of the two: they run at once.")


class CurvePoint(Predicted):
    """Seconds that another F should take."""

    f: int = Field(description="Rows of C that the CPU would compute.")


class RefusedSplit(BaseModel):
    """A split that promises too little."""

    f: int = Field(description="Rows of C that the CPU would compute.")
    seconds: float = Field(
        description="Seconds that count: its CPU part may end late, as after other work."
    )


class TileGrid(BaseModel):
    """The tiles of a GPU's part, and how they fill its waves."""

    tile_rows: int = Field(description="Rows of C of a tile.")
    tile_columns: int = Field(description="Columns of C of a tile.")
    tiles: int = Field(description="Tiles of this part, row of tiles by row.")
    slots: int = Field(description="Blocks of a wave.")
    waves: int = Field(description="Waves of this part.")
    tail_utilization: float = Field(description="Filled share of the last wave.")
    tail_split: bool = Field(
        description="Whether the last wave is split along K, and so costs about its filled share."
    )


class DevicePart(BaseModel):
    """The part of C of one device."""

    device: str = Field(description="A GPU, such as cuda:0, or cpu.")
    name: str = Field(description="Its name.")
    first_row: int | None = Field(
        default=None, description="Its first row of C; null in older runs."
    )
    rows: int = Field(description="Rows of C that it computes.")
    columns: int = Field(
        default=0,
        description="Columns of C that it computes of these rows: all, unless GPUs divide columns.",
    )
    first_column: int | None = Field(
        default=None, description="Its first column of C; null in older runs."
    )
    waves: int | None = Field(description="Waves of its kernels; null for the CPU.")
    seconds: float = Field(description="Seconds that it should take.")
    grid: TileGrid | None = Field(
        default=None, description="Its tiles; null for the CPU, and in older runs."
    )


class ScheduleSpan(BaseModel):
    """Work of a queue: a step of the schedule, or several that are close to each other."""

    begin_seconds: float = Field(description="Begin, from the call.")
    end_seconds: float = Field(description="End, from the call.")
    first_row: int | None = Field(description="First row of C; null for several steps.")
    rows: int | None = Field(description="Rows of C; null for several steps.")
    first_column: int | None = Field(description="First column of C; null for several steps.")
    columns: int | None = Field(description="Columns of C; null for several steps.")
    depth: int | None = Field(
        description="Columns of A and rows of B that it takes; null for several steps."
    )


class QueueView(BaseModel):
    """When a queue of a device should be at work."""

    device: str = Field(description="A GPU, such as cuda:0, or cpu.")
    queue: Work = Field(description="What it does.")
    spans: list[ScheduleSpan] = Field(
        max_length=MOST_SPANS,
        description="When it is at work, in order; of more steps, close ones are merged. Of a "
        "product with very many steps, some stand for all.",
    )


class PlanSummary(BaseModel):
    """Who computes which rows."""

    memory: Memory | None = Field(None, description="The host memory that the operands lie in.")
    f: int = Field(description="Rows of C that the CPU computes, the last ones.")
    gpu_rows: int = Field(description="Rows of C that the GPU computes, the first ones.")
    kernel: str | None = Field(description="The GPU's kernel; null when f is M.")
    tile: str | None = Field(description="The tile of C that a block computes, and the K step.")
    accuracy: str | None = Field(None, description="How exact that kernel's sums are.")
    sms: int | None = Field(None, description="Multiprocessors that it is held to; null for all.")
    waves: int = Field(description="Waves of the GPU's part; of all GPUs.")
    waves_gpu_only: int = Field(description="Waves if the GPU computed every row.")
    tail_utilization: float = Field(description="Filled share of the last wave.")
    tail_split: bool = Field(
        False,
        description="Whether the last wave is split along K, and so costs about its filled share.",
    )
    devices: list[DevicePart] = Field(
        default=[], description="The devices that have rows, in the order of the rows."
    )
    exchanges_b: bool = Field(
        False,
        description="Whether each GPU fetches a part of B and gets the rest from the others.",
    )
    resident: bool = Field(
        False,
        description="Whether B stays on the GPUs between products, so that it is not copied in.",
    )
    predicted: Predicted = Field(description="Seconds that it should take.")
    speedup_over_gpu: float | None = Field(description="Over the GPU alone; null without one.")
    speedup_over_cpu: float = Field(description="Over the CPU alone.")
    no_gpu_reason: str | None = Field(
        None, description="Why no kernel of a GPU may compute this product; null if one may."
    )
    profile: PlanProfile | None = Field(
        None, description="The figures that this was decided from, with their sources."
    )


class PlanView(PlanSummary):
    """Who should compute which rows, and why."""

    memory: Memory = Field(description="The host memory that the operands lie in.")
    profile: MachineFigures = Field(
        description="The figures that this was decided from, with their sources."
    )
    divides_columns: bool = Field(description="Whether the GPUs divide the columns of their rows.")
    slots: int | None = Field(
        description="Blocks of a wave of the first GPU; when f is M, with the kernel that the CPU "
        "was compared with. Null if no GPU may compute this product."
    )
    wave_seconds: float | None = Field(description="Seconds of a wave there, with this K.")
    f_one_wave_less: int | None = Field(
        description="Least F with which each GPU needs at least a wave less; null when f is M."
    )
    gpu_only_seconds: float | None = Field(
        description="Seconds of one GPU alone; null if none may compute this product."
    )
    cpu_only_seconds: float = Field(description="Seconds of the CPU alone.")
    uncorrected_seconds: float = Field(
        description="Seconds that it should take without the corrections from earlier runs."
    )
    least_gain: float = Field(
        description="Share of the better single device's time that a split must promise to save."
    )
    refused_split: RefusedSplit | None = Field(
        description="The best split, if it promises less than that; null otherwise."
    )
    curve: list[CurvePoint] = Field(
        description="Seconds over F: at most 250 points, dense near the split, with both ends of "
        "a wave."
    )
    near_f: int = Field(description="Up to this F a plot shows what is near the split.")
    schedule: list[QueueView] | None = Field(
        description="When each queue should be at work; null without `drawing`."
    )
    expected: ExpectedView | None = Field(
        None, description="When it would begin and end as a job; left out without `queued`."
    )
