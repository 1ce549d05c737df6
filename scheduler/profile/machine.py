"""The profile of a machine: GPU, links, kernels and CPU.

Each group of numbers has a `source`: the data sheet, the rule of its estimate, or the time of its
measurement on this machine.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.model.corrections import NO_CORRECTIONS, Corrections
from wavetrim.scheduler.model.cpu import CpuModel, CpuRate
from wavetrim.scheduler.problem import MEMORIES, Memory
from wavetrim.scheduler.profile.document import read_document, read_object, refuse
from wavetrim.scheduler.profile.joint import JointLinks

FORMAT_VERSION = 4


@dataclass(frozen=True, slots=True)
class GpuModel:
    """The data sheet of a GPU.

    Attributes:
        name: Its name, which a request may give as the device.
        sm_count: Streaming multiprocessors.
        compute_capability: Major and minor number.
        clock_mhz: Boost clock of the multiprocessors.
        memory_bytes: Device memory.
        memory_gbytes_per_second: Device memory bandwidth, 1e9 bytes a second.
        link_gbytes_per_second: Host link in each direction by its standard, 1e9 bytes a second.
        float32_gflops: Peak of the float32 units (no tensor cores).
        float64_gflops: Peak of the float64 units (no tensor cores).
        float64_tensor_gflops: Peak of float64 on tensor cores; `float64_gflops` without them.
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
    """Times of one kernel on one GPU: a staircase over waves.

    Attributes:
        kernel: Name in the catalog.
        dtype: Element type.
        tile: Its tile as text, rows x columns x step along K.
        slots: Blocks of a wave on the whole GPU, as the staircase shows them.
        launch_seconds: Latency of a launch.
        wave_seconds: Seconds of one wave that do not depend on K.
        wave_k_seconds: Seconds of one wave for each unit of K.
        source: Where the figures come from.
        assumed: Whether they were estimated from a data sheet, not measured.
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
    """The link between one kind of host memory and the GPU, staging included.

    Attributes:
        memory: The kind of host memory.
        in_gbytes_per_second: Rate to the GPU, 1e9 bytes a second.
        out_gbytes_per_second: Rate from the GPU.
        call_seconds: Fixed cost of a call of the pipeline, without steps and bytes.
        source: Where the figures come from.
        step_seconds: Time of the calling thread to enqueue a step.
        copy_seconds: Latency of a copy.
        row_seconds: Time that each row adds to a copy of parts of rows.
        together: Time of copies in and out at the same time over that of one after the other: 0.5
            if the directions are independent, 1 if they take turns.
        fill_seconds: Most seconds that copies lose until they run at their rates.
        copied_gbytes_per_second: Rate of copies within host memory: small pageable products are
            copied whole into page-locked memory first.
    """

    memory: Memory
    in_gbytes_per_second: float
    out_gbytes_per_second: float
    call_seconds: float
    source: str
    step_seconds: float = 0.0
    copy_seconds: float = 8e-6
    row_seconds: float = 0.0
    together: float = 1.0
    fill_seconds: float = 0.0
    copied_gbytes_per_second: float = 8.0


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """All figures of a machine that decide plans.

    Attributes:
        device: Name of the GPU, or "cpu".
        source: One line on the origin of the whole profile.
        cpu: The CPU.
        gpu: The GPU; None without one.
        links: A link for each kind of memory; none without a GPU.
        kernels: Times of each kernel, element type and tile.
        key: GPU UUID, driver, libraries and threads of a measured profile.
        measured_at: ISO 8601 time of the measurement; None if it was not measured.
        index: CUDA's index of the GPU.
        beside: The profiles of the machine's other GPUs, in CUDA's order, with the same CPU.
        joint: Rates of the links while several GPUs copy, as far as measured.
        peer_gbytes_per_second: Rate from one of its GPUs to another while that copies back, 1e9
            bytes a second; 0 if they cannot, or if it was not measured.
        corrections: Corrections of its predictions from earlier runs; not in the document.
    """

    device: str
    source: str
    cpu: CpuModel
    gpu: GpuModel | None = None
    links: tuple[LinkModel, ...] = ()
    kernels: tuple[KernelModel, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)
    measured_at: str | None = None
    index: int = 0
    beside: tuple["MachineProfile", ...] = ()
    joint: tuple[JointLinks, ...] = ()
    peer_gbytes_per_second: float = 0.0
    corrections: Corrections = field(default=NO_CORRECTIONS, compare=False, repr=False)

    @property
    def gpus(self) -> tuple["MachineProfile", ...]:
        """A profile for each GPU of the machine, this one first; none without a GPU."""
        return () if self.gpu is None else (self, *self.beside)

    def find_joint(self, memory: Memory, gpus: int) -> JointLinks | None:
        """The joint rates of this number of GPUs; None if they were not measured."""
        return next((one for one in self.joint if (one.memory, one.gpus) == (memory, gpus)), None)

    def find_kernel_model(self, spec: KernelSpec) -> KernelModel | None:
        """The times of a kernel; None if this machine cannot run it."""
        return next((model for model in self.kernels if model.fits(spec)), None)

    def index_kernels(self) -> dict[tuple[str, str, str], KernelModel]:
        """The times of all kernels, by name, element type and tile."""
        return {(model.kernel, model.dtype, model.tile): model for model in self.kernels}

    def find_link(self, memory: Memory) -> LinkModel | None:
        """The link for a kind of memory; None without a GPU."""
        return next((link for link in self.links if link.memory == memory), None)

    def find_cpu_rate(self, dtype: str) -> CpuRate:
        """The CPU's rate for an element type."""
        return next(rate for rate in self.cpu.rates if rate.dtype == dtype)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready copy; `from_dict` is its inverse."""
        document = asdict(replace(self, beside=(), corrections=NO_CORRECTIONS))
        del document["corrections"]
        document["beside"] = [one.as_dict() for one in self.beside]
        return {"format": FORMAT_VERSION, **document}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "MachineProfile":
        """Read a profile that `as_dict` wrote.

        Raises:
            ProfileError: The document has another format, a field is missing, or a value is none
                of its field.
        """
        # Profiles beside another have none beside themselves.
        profile = _read_profile(document, "")
        beside = document.get("beside", ())
        if not isinstance(beside, list | tuple):
            raise refuse("beside", beside, "a list")
        others = (_read_profile(one, f"beside[{index}]") for index, one in enumerate(beside))
        return replace(profile, beside=tuple(others))


def _read_profile(document: object, place: str) -> MachineProfile:
    """The profile of one GPU, or of a machine without one."""
    prefix = f"{place}." if place else ""
    written = read_object(document, place).get("format")
    if written != FORMAT_VERSION:
        raise refuse(f"{prefix}format", written, str(FORMAT_VERSION))
    profile = read_document(MachineProfile, document, place, without=("beside", "corrections"))
    if profile.gpu is None and profile.links:
        raise refuse(f"{prefix}gpu", None, "the GPU that the links lead to")
    # What plans look up. Rates of other types are scaled from float32's.
    for name, entries, needed in (
        ("cpu.rates", [one.dtype for one in profile.cpu.rates], ("float32",)),
        ("cpu.beside_gpu", [one.memory for one in profile.cpu.beside_gpu], MEMORIES),
        ("links", [one.memory for one in profile.links], MEMORIES if profile.gpu else ()),
    ):
        if not set(needed) <= set(entries):
            raise refuse(f"{prefix}{name}", entries, f"a list with {' and '.join(needed)}")
    return profile
