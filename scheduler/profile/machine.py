"""What the model knows of one machine: its GPU, the link to it, the kernels on it, its CPU.

Every group of numbers carries a `source`: the data sheet it was taken from, the rule it was
derived by, or when it was measured here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from wavetrim.kernels.catalog import KernelSpec
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.model.corrections import NO_CORRECTIONS, Corrections
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate, CpuShare
from wavetrim.scheduler.problem import Memory

FORMAT_VERSION = 4


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU as a data sheet gives it.

    Attributes:
        name: Name a user asks for it by.
        sm_count: Streaming multiprocessors.
        compute_capability: Major and minor number.
        clock_mhz: Boost clock of the multiprocessors.
        memory_bytes: Device memory.
        memory_gbytes_per_second: Device memory bandwidth, 1e9 bytes a second.
        link_gbytes_per_second: Host link, each way, 1e9 bytes a second, as its standard gives it.
        float32_gflops: Peak of the float32 units (no tensor cores).
        float64_gflops: Peak of the float64 units (no tensor cores).
        float64_tensor_gflops: Peak of float64 on tensor cores; the same as `float64_gflops`
            where they have none.
        float16_tensor_gflops: Peak of dense float16 on tensor cores, accumulated in float32.
        source: Where the figures come from.
    """

    name: str
    sm_count: int
    compute_capability: tuple[int, int]
    clock_mhz: int
    memory_bytes: int
    memory_gbytes_per_second: float
    link_gbytes_per_second: float
    float32_gflops: float
    float64_gflops: float
    float64_tensor_gflops: float
    float16_tensor_gflops: float
    source: str


@dataclass(frozen=True, slots=True)
class KernelModel:
    """The staircase of one kernel on one GPU.

    Attributes:
        kernel: Name in the catalog.
        dtype: Element type.
        tile: The spec's tile as text, rows x columns x K step.
        slots: Blocks a wave holds on the whole GPU, as the staircase shows it.
        launch_seconds: Seconds until the first wave runs.
        wave_seconds: Seconds of one wave that do not depend on K.
        wave_k_seconds: Seconds of one wave for each unit of K.
        source: Where the figures come from.
        assumed: Whether they were derived from a data sheet rather than measured.
    """

    kernel: str
    dtype: str
    tile: str
    slots: int
    launch_seconds: float
    wave_seconds: float
    wave_k_seconds: float
    source: str
    assumed: bool = False

    def fits(self, spec: KernelSpec) -> bool:
        """Whether this is the model of `spec`."""
        return self.kernel == spec.name and self.dtype == spec.dtype and self.tile == str(spec.tile)


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The way between one kind of host memory and the GPU's, as the pipeline goes it.

    Attributes:
        memory: The kind of host memory.
        in_gbytes_per_second: Caller's memory to GPU, staging included, 1e9 bytes a second.
        out_gbytes_per_second: GPU to caller's memory, staging included.
        call_seconds: Seconds that one call of the pipeline costs beyond its bytes and steps.
        source: Where the figures come from.
        step_seconds: Seconds that the calling thread takes to enqueue a step of the pipeline.
        copy_seconds: Seconds until a copy's first byte moves.
        together: What copies in and out take at the same time, as a share of what they take one
            after the other: 0.5 where neither way holds up the other, 1 where they take turns.
        fill_seconds: Seconds that copies lose until they run at their rates; less of it where they
            are too small to get there.
    """

    memory: Memory
    in_gbytes_per_second: float
    out_gbytes_per_second: float
    call_seconds: float
    source: str
    step_seconds: float = 0.0
    copy_seconds: float = 8e-6
    together: float = 1.0
    fill_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """All that a plan is decided from.

    Attributes:
        device: Name of the GPU, or "cpu".
        source: One line that says where the profile as a whole comes from.
        cpu: The CPU.
        gpu: The GPU; None where there is none.
        links: The ways to it, one a kind of memory; none where there is no GPU.
        kernels: Staircases, one a kernel, element type and tile.
        key: What a measured profile was measured on (GPU UUID, driver, libraries).
        measured_at: ISO 8601 time of the measurement; None for a preset.
        corrections: What earlier runs say of its predictions; no part of the document.
    """

    device: str
    source: str
    cpu: CpuModel
    gpu: GpuModel | None = None
    links: tuple[LinkModel, ...] = ()
    kernels: tuple[KernelModel, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)
    measured_at: str | None = None
    corrections: Corrections = field(default=NO_CORRECTIONS, compare=False, repr=False)

    def find_kernel_model(self, spec: KernelSpec) -> KernelModel | None:
        """The staircase of `spec`; None when this machine does not run it."""
        return next((model for model in self.kernels if model.fits(spec)), None)

    def index_kernels(self) -> dict[tuple[str, str, str], KernelModel]:
        """The staircases by kernel, element type and tile: to look many up at once."""
        return {(model.kernel, model.dtype, model.tile): model for model in self.kernels}

    def find_link(self, memory: Memory) -> LinkModel | None:
        """The way from such memory to the GPU; None where there is no GPU."""
        return next((link for link in self.links if link.memory == memory), None)

    def find_cpu_rate(self, dtype: str) -> CpuRate:
        """The CPU's rate for an element type."""
        return next(rate for rate in self.cpu.rates if rate.dtype == dtype)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready copy; `from_dict` is its inverse."""
        document = asdict(replace(self, corrections=NO_CORRECTIONS))
        del document["corrections"]
        return {"format": FORMAT_VERSION, **document}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "MachineProfile":
        """Read a profile that `as_dict` wrote.

        Raises:
            ProfileError: The document has another format, or lacks something.
        """
        try:
            return _read_profile(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"not a profile of format {FORMAT_VERSION}: {error!r}"
            raise ProfileError(message) from error


def _read_profile(document: Mapping[str, Any]) -> MachineProfile:
    if document["format"] != FORMAT_VERSION:
        raise ValueError(f"format is {document['format']!r}")
    cpu, gpu = document["cpu"], document["gpu"]
    return MachineProfile(
        device=document["device"],
        source=document["source"],
        cpu=CpuModel(
            threads=cpu["threads"],
            rates=tuple(CpuRate(**rate) for rate in cpu["rates"]),
            beside_gpu=tuple(CpuShare(**_pick(share, CpuShare)) for share in cpu["beside_gpu"]),
        ),
        gpu=gpu and GpuModel(**{**gpu, "compute_capability": tuple(gpu["compute_capability"])}),
        links=tuple(LinkModel(**link) for link in document["links"]),
        kernels=tuple(KernelModel(**model) for model in document["kernels"]),
        key=dict(document["key"]),
        measured_at=document["measured_at"],
    )


def _pick(document: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """What a dataclass has of a document; earlier versions measured more."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in document.items() if name in names}
