"""Plans and devices on the wire."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.problem import Memory
from wavetrim.service.api.option_schemas import OptionQuery
from wavetrim.service.api.schemas import DtypeName, Pair

MAX_SIZE: Final = 10_000_000
"""The largest M, N or K that a plan is made for."""

Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]


class PlanQuery(OptionQuery):
    """What a plan is asked for: C[M,N] = A[M,K]·B[K,N]."""

    m: Size = Field(description="Rows of A and C.", examples=[8192])
    n: Size = Field(description="Columns of B and C.", examples=[8192])
    k: Size = Field(description="Columns of A and rows of B.", examples=[8192])
    dtype: DtypeName = Field("float32", description="Element type.")
    memory: Memory = Field(
        "pageable",
        description="The host memory that the operands lie in: pageable (any array, a mapped file; "
        "what jobs have) or pinned (page-locked, which the GPU reads and writes by itself).",
    )
    device: str | None = Field(
        None,
        max_length=100,
        description="A preset, a local GPU (cuda:0, its name or its UUID) or cpu; without it, "
        "this machine.",
        examples=["H200"],
    )


class Predicted(BaseModel):
    """Seconds that a plan should take."""

    gpu_seconds: float = Field(description="The GPU's part.")
    cpu_seconds: float = Field(description="The CPU's part.")
    total_seconds: float = Field(description="The longer of the two: they run at once.")


class CurvePoint(Predicted):
    """Seconds that another F should take."""

    f: int = Field(description="Rows of C that the CPU would compute.")


class PlanView(BaseModel):
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

    memory: Memory = Field(description="The host memory that the operands are to lie in.")
    f: int = Field(description="Rows of C that the CPU computes, the last ones.")
    gpu_rows: int = Field(description="Rows of C that the GPU computes, the first ones.")
    kernel: str | None = Field(description="The GPU's kernel; null when f is M.")
    tile: str | None = Field(description="The tile of C that a block computes, and the K step.")
    accuracy: str | None = Field(description="How exact that kernel's sums are.")
    sms: int | None = Field(description="Multiprocessors that it is held to; null for all.")
    waves: int = Field(description="Waves of the GPU's part.")
    waves_gpu_only: int = Field(description="Waves if the GPU computed every row.")
    tail_utilization: float = Field(description="Filled share of the last wave.")
    tail_split: bool = Field(
        description="Whether that wave is split along K, and so costs about its filled share."
    )
    predicted: Predicted = Field(description="Seconds that it should take.")
    speedup_over_gpu: float | None = Field(description="Over the GPU alone; null without one.")
    speedup_over_cpu: float = Field(description="Over the CPU alone.")
    no_gpu_reason: str | None = Field(
        description="Why no kernel of a GPU may compute this product; null where one may."
    )
    curve: list[CurvePoint] = Field(description="At most 512 points: seconds over F.")
    profile: dict[str, Any] = Field(description="What this was decided from, with its sources.")


class DeviceView(BaseModel):
    """A GPU of this machine."""

    index: int = Field(description="CUDA's number of the device.")
    name: str = Field(description="The vendor's name.")
    uuid: str = Field(description="The same in every process.")
    compute_capability: Pair = Field(description="Major and minor number.")
    sm_count: int = Field(description="Streaming multiprocessors.")
    memory_bytes: int = Field(description="Device memory.")
    clock_mhz: int = Field(description="Highest clock of the multiprocessors.")
    memory_clock_mhz: int = Field(description="Highest clock of the memory.")
    driver_version: str = Field(description="Version of the driver.")
    runtime_version: str = Field(description="Version of the CUDA runtime.")


class PresetView(BaseModel):
    """A GPU that can be planned for without being here."""

    name: str = Field(description="What to name it in `device`.")
    sm_count: int = Field(description="Streaming multiprocessors.")
    compute_capability: Pair = Field(description="Major and minor number.")
    memory_bytes: int = Field(description="Device memory.")
    source: str = Field(description="Where its figures come from.")


class ProfileView(BaseModel):
    """What this machine's plans are decided from."""

    device: str = Field(description='Name of the GPU, or "cpu".')
    source: str = Field(description="Measured here, a preset, or an estimate.")
    measured_at: str | None = Field(description="When it was measured; null for a preset.")


class ArenaView(BaseModel):
    """The shared memory in which matrices are received, computed and sent."""

    limit_bytes: int = Field(description="The most that it may take.")
    made_bytes: int = Field(description="What it takes now.")
    used_bytes: int = Field(description="What matrices take of that.")
    locked_bytes: int = Field(description="What is page-locked: GPUs read and write it alone.")
    slabs: int = Field(description="The pieces that it is made of.")
    extents: int = Field(description="How many places are taken.")
    evictions: int = Field(description="How often a matrix that is on disk made room.")
    refusals: int = Field(description="How often there was no room.")
    leases: int = Field(description="Pieces that callers on this host have for themselves.")
    leased_bytes: int = Field(description="What these take of what is made.")


class NetworkView(BaseModel):
    """The way from this service to a node, measured when it joined."""

    call_seconds: float = Field(description="What an empty call takes.")
    in_bytes_per_second: float = Field(description="Rate to the node.")
    out_bytes_per_second: float = Field(description="Rate from the node.")


class NodeView(BaseModel):
    """A node of the cluster that computes, too."""

    id: str = Field(description="Ray's id of the node.")
    host: str = Field(description="Its name.")
    devices: list[DeviceView] = Field(description="Its GPUs.")
    cpu_threads: int = Field(description="Threads of its CPU part.")
    memory_bytes: int = Field(description="Its memory.")
    profile: ProfileView = Field(description="Where its figures come from.")
    network: NetworkView = Field(description="The way there.")
    resident: list[str] = Field(
        description="Stored matrices that it keeps, so that they are not sent again as B."
    )
    factor: float = Field(
        description="Measured over expected seconds of its newest runs, by which later ones are "
        "corrected."
    )


class DevicesView(BaseModel):
    """What computes here, and what can be planned for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "devices": [
                        {
                            "index": 0,
                            "name": "NVIDIA H200",
                            "uuid": "GPU-1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901",
                            "compute_capability": [9, 0],
                            "sm_count": 132,
                            "memory_bytes": 150109880320,
                            "clock_mhz": 1980,
                            "memory_clock_mhz": 3201,
                            "driver_version": "580.65.06",
                            "runtime_version": "13.0",
                        }
                    ],
                    "cpu_threads": 16,
                    "profile": {
                        "device": "NVIDIA H200",
                        "source": "measured on this machine",
                        "measured_at": "2026-03-01T11:00:00+00:00",
                    },
                    "arena": {
                        "limit_bytes": 17179869184,
                        "made_bytes": 1073741824,
                        "used_bytes": 134217728,
                        "locked_bytes": 1073741824,
                        "slabs": 1,
                        "extents": 3,
                        "evictions": 0,
                        "refusals": 0,
                        "leases": 0,
                        "leased_bytes": 0,
                    },
                    "nodes": [],
                    "presets": [
                        {
                            "name": "H200",
                            "sm_count": 132,
                            "compute_capability": [9, 0],
                            "memory_bytes": 141000000000,
                            "source": "NVIDIA H200 Tensor Core GPU datasheet",
                        }
                    ],
                }
            ]
        }
    )

    devices: list[DeviceView] = Field(description="The GPUs that the service uses.")
    cpu_threads: int | None = Field(description="Threads of the CPU part; null before it is known.")
    profile: ProfileView = Field(description="Where the figures of this machine come from.")
    arena: ArenaView | None = Field(description="Shared memory; none where it is switched off.")
    nodes: list[NodeView] = Field(description="The nodes of the cluster that take products.")
    presets: list[PresetView] = Field(description="GPUs that can be planned for.")
