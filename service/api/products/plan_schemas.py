"""Schemas of plans."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.problem import Memory
from wavetrim.scheduler.profile.what_if import (
    LEAST_RATE,
    MOST_GBYTES_PER_SECOND,
    MOST_GFLOPS,
    MOST_THREADS,
    WhatIf,
)
from wavetrim.service.api.option_schemas import OptionQuery
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


class PlanQuery(OptionQuery):
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


class RunCorrection(BaseModel):
    """How earlier runs correct a part's prediction."""

    runs_like: str = Field(description="The class of the runs, from wide to narrow.")
    runs: int = Field(description="How many there were.")
    factor: float = Field(description="Measured over predicted seconds.")


class KernelFigures(BaseModel):
    """What is known of the plan's kernel."""

    model_config = ConfigDict(extra="allow")

    slots: int = Field(description="Blocks of a wave.")
    wave_seconds: float = Field(description="Seconds of a wave with this K.")
    launch_seconds: float = Field(description="Latency of a launch.")
    source: str = Field(description="Where these come from.")


class LinkFigures(BaseModel):
    """What is known of the way between this memory and the GPU."""

    model_config = ConfigDict(extra="allow")

    memory: Memory | None = Field(None, description="The kind of memory.")
    in_gbytes_per_second: float = Field(description="Rate to the GPU, 1e9 bytes a second.")
    out_gbytes_per_second: float = Field(description="Rate from the GPU.")
    call_seconds: float | None = Field(None, description="Fixed cost of a product.")
    step_seconds: float | None = Field(None, description="What each step costs the host.")
    source: str = Field(description="Where these come from.")


class CpuFigures(BaseModel):
    """What is known of the CPU."""

    model_config = ConfigDict(extra="allow")

    threads: int = Field(description="Threads of the CPU alone.")
    threads_beside_gpu: int = Field(description="Threads beside the GPU.")
    gflops: float = Field(description="Rate of all threads in this element type.")
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


class DevicePart(BaseModel):
    """The part of C of one device."""

    device: str = Field(description="A GPU, such as cuda:0, or cpu.")
    name: str = Field(description="Its name.")
    rows: int = Field(description="Rows of C that it computes.")
    columns: int = Field(
        default=0,
        description="Columns of C that it computes of these rows: all, unless GPUs divide columns.",
    )
    waves: int | None = Field(description="Waves of its kernels; null for the CPU.")
    seconds: float = Field(description="Seconds that it should take.")


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

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "memory": "pageable",
                    "f": 1024,
                    "gpu_rows": 15360,
                    "kernel": "register",
                    "tile": "64x128x16",
                    "accuracy": "strict",
                    "sms": None,
                    "waves": 117,
                    "waves_gpu_only": 125,
                    "tail_utilization": 0.38,
                    "tail_split": False,
                    "devices": [
                        {
                            "device": "cuda:0",
                            "name": "H200",
                            "rows": 15360,
                            "columns": 16384,
                            "waves": 117,
                            "seconds": 0.0181,
                        },
                        {
                            "device": "cpu",
                            "name": "cpu",
                            "rows": 1024,
                            "columns": 16384,
                            "waves": None,
                            "seconds": 0.0176,
                        },
                    ],
                    "exchanges_b": False,
                    "resident": False,
                    "predicted": {
                        "gpu_seconds": 0.0181,
                        "cpu_seconds": 0.0176,
                        "total_seconds": 0.0181,
                    },
                    "speedup_over_gpu": 1.07,
                    "speedup_over_cpu": 5.4,
                    "no_gpu_reason": None,
                    "curve": [
                        {
                            "f": 0,
                            "gpu_seconds": 0.0194,
                            "cpu_seconds": 0.0,
                            "total_seconds": 0.0194,
                        },
                        {
                            "f": 1024,
                            "gpu_seconds": 0.0181,
                            "cpu_seconds": 0.0176,
                            "total_seconds": 0.0181,
                        },
                    ],
                    "profile": {"device": "H200", "source": "preset H200: NVIDIA's data sheet"},
                }
            ]
        }
    )

    memory: Memory = Field(description="The host memory that the operands lie in.")
    profile: PlanProfile = Field(
        description="The figures that this was decided from, with their sources."
    )
    curve: list[CurvePoint] = Field(description="At most 512 points: seconds over F.")
