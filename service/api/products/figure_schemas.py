"""Schemas of the figures that decided a plan, each with its source."""

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.problem import Memory


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
