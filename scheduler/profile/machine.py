"""The profile of a machine: the numbers that decide plans.

A machine with one GPU has at most thirty: four of each link, eight of the CPU, and a rate of each
kernel that was measured. What is not measured comes from a data sheet, by the rules of `estimate`.
Each group of numbers names its source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from annotated_types import Interval

from wavetrim.kernels.spec import KernelSpec
from wavetrim.scheduler.problem import Memory
from wavetrim.scheduler.profile.corrections import NO_CORRECTIONS, Corrections

RELATIVE_GFLOPS: Final[dict[str, tuple[str, float]]] = {
    "float32": ("float32", 1.0),
    "float64": ("float64", 1.0),
    "float16": ("float32", 1.0),
    "bfloat16": ("float32", 1.0),
    "complex64": ("float32", 1 / 4),
    "complex128": ("float64", 1 / 4),
    **dict.fromkeys(("int8", "int16", "uint8", "uint16"), ("float64", 1.0)),
    **dict.fromkeys(("int32", "int64", "uint32", "uint64"), ("float32", 1 / 50)),
}
"""The CPU's rate for an element type: a share of that of float32 or float64. Halves are converted
to float32, short integers to float64. Long integers have no BLAS. An operation on complex numbers
is four on real ones."""


Count = Annotated[int, Interval(ge=1, le=10**15)]
Positive = Annotated[float, Interval(ge=1e-6, le=1e12)]
NotNegative = Annotated[float, Interval(ge=0, le=1e12)]
Slowdown = Annotated[float, Interval(ge=1, le=100)]
"""Numbers that a stored profile may have. The limits are beyond any machine, and keep arithmetic
far from overflow. Chosen."""

LEAST_MEMORY_BYTES: Final = 1 << 24
"""The smallest accepted memory of a GPU: two tiles of each operand fit, by any kernel. Chosen."""


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
    sm_count: Count
    compute_capability: tuple[int, int]
    clock_mhz: Count
    memory_bytes: Annotated[int, Interval(ge=LEAST_MEMORY_BYTES, le=10**15)]
    memory_gbytes_per_second: Positive
    link_gbytes_per_second: Positive
    float32_gflops: Positive
    float64_gflops: Positive
    float64_tensor_gflops: Positive
    float16_tensor_gflops: Positive
    source: str


@dataclass(frozen=True, slots=True)
class KernelRate:
    """The rate of one kernel on one GPU.

    Attributes:
        kernel: Name in the catalog.
        dtype: Element type.
        tile: Its tile as text, rows x columns x step along K.
        gflops: Rate of full waves, 1e9 operations a second.
        source: Where the figure comes from.
    """

    kernel: str
    dtype: str
    tile: str
    gflops: Positive
    source: str


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The link between one kind of host memory and the GPU, staging included.

    Attributes:
        memory: The kind of host memory.
        in_gbytes_per_second: Rate to the GPU, 1e9 bytes a second.
        out_gbytes_per_second: Rate from the GPU.
        duplex: Factor on the time of a copy while the other direction is busy: 1 for independent
            directions, 2 for directions that take turns.
        call_seconds: Time of a product before its first step.
        source: Where the figures come from.
    """

    memory: Memory
    in_gbytes_per_second: Positive
    out_gbytes_per_second: Positive
    duplex: Slowdown
    call_seconds: NotNegative
    source: str


@dataclass(frozen=True, slots=True)
class JointLinks:
    """What the links of all GPUs of a host reach together, from page-locked memory.

    Attributes:
        in_gbytes_per_second: Rate to all GPUs together, 1e9 bytes a second.
        out_gbytes_per_second: Rate from all of them together.
        both_gbytes_per_second: Rate of both ways together while both are busy.
        peer_gbytes_per_second: Rate from one GPU to another while that copies back; 0 if they
            cannot.
        source: Where the figures come from.
    """

    in_gbytes_per_second: Positive
    out_gbytes_per_second: Positive
    both_gbytes_per_second: Positive
    peer_gbytes_per_second: NotNegative
    source: str


@dataclass(frozen=True, slots=True)
class CpuModel:
    """The CPU of a machine.

    Attributes:
        threads: Threads of the pool without a GPU part.
        float32_gflops: Rate of all threads in float32, 1e9 operations a second.
        float64_gflops: The same in float64.
        thread_gflops: Rate of one thread alone, in float32.
        read_gbytes_per_second: Rate at which all threads read operands, 1e9 bytes a second.
        write_gbytes_per_second: Rate at which they write a C that no cache holds.
        copy_gbytes_per_second: Rate of the driver's copies between pageable memory and its own.
        start_seconds: Time to wake all threads, and to join them.
        source: Where the figures come from.
    """

    threads: Count
    float32_gflops: Positive
    float64_gflops: Positive
    thread_gflops: Positive
    read_gbytes_per_second: Positive
    write_gbytes_per_second: Positive
    copy_gbytes_per_second: Positive
    start_seconds: NotNegative
    source: str

    def find_gflops(self, dtype: str) -> float:
        """Rate of all threads for an element type."""
        base, share = RELATIVE_GFLOPS[dtype]
        return share * (self.float64_gflops if base == "float64" else self.float32_gflops)


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """All numbers of a machine that decide plans.

    Attributes:
        device: Name of the GPU, or "cpu".
        source: One line on the origin of the whole profile.
        cpu: The CPU.
        gpu: The GPU; None without one.
        links: A link for each kind of memory; none without a GPU.
        kernels: Rates of the kernels that were measured.
        key: GPU UUID, driver, libraries and threads of a measured profile.
        measured_at: ISO 8601 time of the measurement; None if it was not measured.
        index: CUDA's index of the GPU.
        beside: The profiles of the machine's other GPUs, in CUDA's order, with the same CPU.
        joint: What the links of all its GPUs reach together; None for one GPU, or if that was not
            measured.
        corrections: Corrections of its predictions from earlier runs; in no file.
    """

    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True, "allow_inf_nan": False}

    device: str
    source: str
    cpu: CpuModel
    gpu: GpuModel | None = None
    links: tuple[LinkModel, ...] = ()
    kernels: tuple[KernelRate, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)
    measured_at: str | None = None
    index: int = 0
    beside: tuple["MachineProfile", ...] = ()
    joint: JointLinks | None = None
    corrections: Corrections = field(default=NO_CORRECTIONS, compare=False, repr=False)

    @property
    def gpus(self) -> tuple["MachineProfile", ...]:
        """A profile for each GPU of the machine, this one first; none without a GPU."""
        return () if self.gpu is None else (self, *self.beside)

    @property
    def sheet(self) -> GpuModel:
        """The data sheet of the GPU, on a machine with one."""
        assert self.gpu is not None, "only a machine with a GPU has its data sheet"
        return self.gpu

    def find_link(self, memory: Memory) -> LinkModel:
        """The link for a kind of memory, on a machine with a GPU."""
        return next(link for link in self.links if link.memory == memory)

    def find_measured(self, spec: KernelSpec) -> KernelRate | None:
        """The measured rate of a kernel; None if it was not measured."""
        for one in self.kernels:
            same_name = one.kernel == spec.name and one.dtype == spec.dtype
            if same_name and one.tile == str(spec.tile):
                return one
        return None
