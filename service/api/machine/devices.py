"""Devices and profiles: what computes here or can be planned for, and the numbers of plans."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from wavetrim.scheduler.profile.machine import (
    CpuModel,
    GpuModel,
    JointLinks,
    KernelRate,
    LinkModel,
)
from wavetrim.scheduler.profile.presets import PRESETS
from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.products.plan import DeviceName
from wavetrim.service.api.schemas import Pair
from wavetrim.service.settings import Settings
from wavetrim.service.storage.disk.files import measure_disk

router = APIRouter(prefix="/v1", tags=["plan"], route_class=CallRoute)


class _Described(BaseModel):
    """What is read from an object of the same fields."""

    model_config = ConfigDict(from_attributes=True)


class DeviceView(_Described):
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


class PresetView(_Described):
    """A GPU that plans can be made for although it is not here."""

    name: str = Field(description="What to name it in `device`.")
    sm_count: int = Field(description="Streaming multiprocessors.")
    compute_capability: Pair = Field(description="Major and minor number.")
    memory_bytes: int = Field(description="Device memory.")
    source: str = Field(description="Where its figures come from.")


class ProfileView(_Described):
    """The profile that this machine's plans are made from."""

    device: str = Field(description='Name of the GPU, or "cpu".')
    source: str = Field(description="Measured here, a preset, or an estimate.")
    measured_at: str | None = Field(description="When it was measured; null for a preset.")


class ArenaView(BaseModel):
    """The shared memory in which matrices are received, computed and sent."""

    limit_bytes: int = Field(description="The most memory that it may take.")
    made_bytes: int = Field(description="Memory that it takes now.")
    used_bytes: int = Field(description="The part of that in which matrices are.")
    locked_bytes: int = Field(description="The page-locked part, which GPUs access directly.")
    slabs: int = Field(description="How many slabs it consists of.")
    extents: int = Field(description="How many places in slabs are taken.")
    evictions: int = Field(description="How often a matrix that is on disk made room.")
    refusals: int = Field(description="How often there was no room.")
    leases: int = Field(description="How many slabs are leased by callers on this host.")
    leased_bytes: int = Field(description="Memory of these, a part of made_bytes.")


class DiskView(BaseModel):
    """The file system of the stored matrices."""

    size_bytes: int = Field(description="Its size.")
    used_bytes: int = Field(description="Bytes of all files on it.")
    free_bytes: int = Field(description="Bytes that matrices may still take: 64 MiB stay free.")
    limit_bytes: int = Field(
        description="The most that all matrices may take (WAVETRIM_MAX_STORAGE_BYTES)."
    )


class LaneView(_Described):
    """What one device of this machine does."""

    device: str = Field(description='"cuda:" and CUDA\'s number, or "cpu".')
    busy_seconds: float = Field(
        description="Expected time until it has done its products; 0 if it has none."
    )


class ResidentsView(BaseModel):
    """The stored matrices that stay on a GPU of this machine, as B of later jobs."""

    index: int = Field(description="CUDA's number of the GPU.")
    limit_bytes: int = Field(description="The most that they may take.")
    size_bytes: int = Field(description="Memory that they take now.")
    operands: int = Field(description="How many there are.")
    uses: int = Field(description="Products whose B was there, since the engine's start.")
    fetches: int = Field(description="How often one was copied in since then.")
    evictions: int = Field(description="How often one made room for another since then.")


class NetworkView(_Described):
    """The way from this service to a node, measured when it joined."""

    call_seconds: float = Field(description="Seconds of an empty call.")
    in_bytes_per_second: float = Field(description="Rate to the node.")
    out_bytes_per_second: float = Field(description="Rate from the node.")


class NodeView(_Described):
    """A node of the cluster that computes products."""

    id: str = Field(description="Ray's id of the node.")
    host: str = Field(description="Its name.")
    devices: list[DeviceView] = Field(description="Its GPUs.")
    cpu_threads: int = Field(description="Threads of its CPU part.")
    memory_bytes: int = Field(description="Its memory.")
    profile: ProfileView = Field(description="Where its figures come from.")
    network: NetworkView = Field(description="The network to it.")
    resident: Annotated[list[str], BeforeValidator(sorted)] = Field(
        description="Stored matrices that it keeps, so that they are not sent again as B."
    )
    factor: float = Field(
        description="Measured over expected seconds of its newest runs, which corrects later ones."
    )


class DevicesView(BaseModel):
    """What computes here, and what can be planned for."""

    devices: list[DeviceView] = Field(description="The GPUs that the service uses.")
    no_gpu_reason: str | None = Field(
        description="Why there is no GPU; null if there is one, or before it is known."
    )
    cpu_threads: int | None = Field(description="Threads of the CPU part; null before it is known.")
    profile: ProfileView = Field(description="Where the figures of this machine come from.")
    arena: ArenaView | None = Field(description="Shared memory; null if it is switched off.")
    disk: DiskView | None = Field(
        description="The file system of the matrices; null if it does not answer."
    )
    lanes: list[LaneView] = Field(
        description="What each device does; devices may work at different products."
    )
    longest_wait_seconds: float = Field(
        description="The longest expected time until the devices of a waiting product are free."
    )
    residents: list[ResidentsView] = Field(
        description="What stays on each GPU, as the engine last reported."
    )
    nodes: list[NodeView] = Field(description="The nodes of the cluster that take products.")
    presets: list[PresetView] = Field(description="GPUs that can be planned for.")


@router.get("/devices")
def list_devices(call: Call) -> DevicesView:
    """List the GPUs of this machine, its memory and disk, nodes, and presets."""
    engine, engines, arena = call.parts.engine, call.parts.engines, call.parts.arena
    return DevicesView(
        devices=[DeviceView.model_validate(info) for info in engine.devices],
        no_gpu_reason=engine.no_gpu_reason,
        cpu_threads=engine.cpu_threads,
        profile=ProfileView.model_validate(engine.profiles.find()),
        arena=ArenaView.model_validate(arena.describe()) if arena.limit_bytes else None,
        disk=_show_disk(call.parts.settings),
        lanes=[
            LaneView(device=name, busy_seconds=seconds) for name, seconds in engines.host.describe()
        ],
        longest_wait_seconds=engines.longest_wait_seconds,
        residents=[ResidentsView.model_validate(one) for one in engine.residents],
        nodes=[NodeView.model_validate(node) for node in tuple(engines.nodes.values())],
        presets=[PresetView.model_validate(gpu) for gpu in PRESETS],
    )


def _show_disk(settings: Settings) -> DiskView | None:
    try:
        measured = measure_disk(settings.matrix_dir)
    except OSError:
        return None
    return DiskView(**measured, limit_bytes=int(settings.max_storage_bytes))


class ProfileQuery(BaseModel):
    """Whose profile is asked for."""

    device: DeviceName = None


class CorrectionView(BaseModel):
    """How runs of one kind correct predictions."""

    kind: str = Field(description="Device, memory and bottleneck of the runs.")
    factor: float = Field(description="Median of measured over predicted seconds.")
    runs: int = Field(description="Runs that the factor is from.")


class GpuView(ProfileView):
    """A GPU as the model knows it."""

    index: int = Field(description="CUDA's index of the GPU; 0 without one.")
    gpu: GpuModel | None = Field(description="The GPU's data sheet; null without one.")
    links: list[LinkModel] = Field(description="The ways to it, one a kind of memory.")
    kernels: list[KernelRate] = Field(
        description="Rates of the kernels that were measured; others are estimated."
    )


class MachineView(GpuView):
    """A machine as the model knows it: its first GPU, and what is beside it."""

    beside: list[GpuView] = Field(description="The machine's other GPUs, in CUDA's order.")
    cpu: CpuModel = Field(description="The CPU.")
    joint: JointLinks | None = Field(
        description="What the links of all its GPUs reach together; null if not measured."
    )
    corrections: list[CorrectionView] = Field(
        description="How runs here correct predictions, for each kind of run."
    )


@router.get("/profile")
def get_profile(call: Call, query: Annotated[ProfileQuery, Query()]) -> MachineView:
    """Show all numbers that plans for a machine are made from."""
    profile = call.parts.engine.profiles.find(query.device)
    corrections = [
        CorrectionView(kind=kind, factor=factor.reported, runs=factor.runs)
        for kind, factor in profile.corrections.list_all().items()
    ]
    return MachineView(
        **GpuView.model_validate(profile).model_dump(),
        beside=[GpuView.model_validate(one) for one in profile.beside],
        cpu=profile.cpu,
        joint=profile.joint,
        corrections=corrections,
    )
