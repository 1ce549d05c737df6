"""Schemas of plans, and of the figures that decided them, each with its source."""

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.planning.drawing import MOST_SPANS, Work
from wavetrim.scheduler.problem import Memory
from wavetrim.service.api.schemas import ExpectedView


class RunCorrection(BaseModel):
    """How earlier runs correct a part's prediction."""

    runs_like: str = Field(description="The kind of run: device, memory and bottleneck.")
    runs: int = Field(description="How many count, the newest.")
    factor: float = Field(description="Median of measured over predicted seconds.")


class KernelFigures(BaseModel):
    """What is known of the plan's kernel."""

    model_config = ConfigDict(extra="allow")

    slots: int = Field(description="Blocks of a wave.")
    gflops: float | None = Field(None, description="Rate of full waves; null in older runs.")
    wave_seconds: float = Field(description="Seconds of a wave with this K.")
    launch_seconds: float = Field(description="Latency of a launch.")
    source: str = Field(description="Where these come from.")


class LinkFigures(BaseModel):
    """What is known of the way between this memory and the GPU."""

    model_config = ConfigDict(extra="allow")

    memory: Memory | None = Field(None, description="The kind of memory.")
    in_gbytes_per_second: float = Field(description="Rate to the GPU, 1e9 bytes a second.")
    out_gbytes_per_second: float = Field(description="Rate from the GPU.")
    duplex: float | None = Field(
        None, description="Factor on a copy while the other direction is busy."
    )
    call_seconds: float | None = Field(None, description="Time of a product before its first step.")
    source: str = Field(description="Where these come from.")


class CpuFigures(BaseModel):
    """What is known of the CPU."""

    model_config = ConfigDict(extra="allow")

    threads: int = Field(description="Threads of the CPU alone.")
    threads_beside_gpu: int = Field(description="Threads beside the GPU.")
    gflops: float = Field(description="Rate of all threads in this element type.")
    read_gbytes_per_second: float | None = Field(None, description="Rate of reading operands.")
    write_gbytes_per_second: float | None = Field(
        None, description="Rate of writing a C that no cache holds."
    )
    start_seconds: float | None = Field(None, description="Time to wake all threads.")
    source: str = Field(description="Where these come from.")


class PlanProfile(BaseModel):
    """The figures that decided a plan, each with its source."""

    model_config = ConfigDict(extra="allow")

    device: str = Field(description='Name of the GPU, or "cpu".')
    source: str = Field(description="Where the profile as a whole comes from.")
    measured_at: str | None = Field(None, description="When it was measured; null for a preset.")
    sm_count: int | None = Field(None, description="Multiprocessors of the GPU.")
    corrections: list[RunCorrection] = Field(
        default=[], description="How earlier runs correct the parts' predictions."
    )
    kernel: KernelFigures | None = Field(None, description="The kernel; null when f is M.")
    link: LinkFigures | None = Field(None, description="The link; null without a GPU.")
    cpu: CpuFigures | None = Field(None, description="The CPU.")


class GpuFigures(BaseModel):
    """What is known of a GPU of the machine."""

    device: str = Field(description="The GPU, such as cuda:0.")
    name: str = Field(description="Its name.")
    source: str = Field(description="Where its profile as a whole comes from.")
    measured_at: str | None = Field(description="When it was measured; null for a preset.")
    sm_count: int = Field(description="Its multiprocessors.")
    kernel: KernelFigures | None = Field(
        description="The kernel on it; null when f is M, or if it cannot run the kernel."
    )
    link: LinkFigures = Field(description="Its link.")


class JointFigures(BaseModel):
    """What the links of several GPUs reach together."""

    in_gbytes_per_second: float = Field(description="Rate to all GPUs, 1e9 bytes a second.")
    out_gbytes_per_second: float = Field(description="Rate from all GPUs.")
    both_gbytes_per_second: float = Field(description="Rate of both ways while both are busy.")
    peer_gbytes_per_second: float = Field(
        description="Rate from one GPU to another; 0 where they cannot, or if not measured."
    )
    source: str = Field(description="Where these come from.")


class MachineFigures(PlanProfile):
    """The figures that decided a plan, and those of each GPU of the machine."""

    gpus: list[GpuFigures] = Field(description="All GPUs of the machine, in CUDA's order.")
    joint: JointFigures | None = Field(
        description="What the links of the GPUs that have rows reach together; null for one."
    )


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
        description="The seconds that it was judged by, with time for a CPU part that ends late."
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
