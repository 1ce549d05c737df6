"""Profiles: all numbers that a machine's plans are made from, for planning elsewhere."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.profile.machine import (
    CpuModel,
    GpuModel,
    JointLinks,
    KernelRate,
    LinkModel,
)
from wavetrim.service.api.calls import Call, CallRoute
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.products.plan import DeviceName

router = APIRouter(prefix="/v1/profile", tags=["plan"], route_class=CallRoute)


class ProfileQuery(BaseModel):
    """Whose profile is asked for."""

    device: DeviceName = None


class CorrectionView(BaseModel):
    """How runs of one kind correct predictions."""

    kind: str = Field(description="Device, memory and bottleneck of the runs.")
    factor: float = Field(description="Median of measured over predicted seconds.")
    runs: int = Field(description="Runs that the factor is from.")


class GpuView(BaseModel):
    """A GPU as the model knows it."""

    model_config = ConfigDict(from_attributes=True)

    index: int = Field(description="CUDA's index of the GPU; 0 without one.")
    device: str = Field(description='Name of the GPU, or "cpu".')
    source: str = Field(description="Where the profile as a whole comes from.")
    measured_at: str | None = Field(description="When it was measured; null for a preset.")
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


@router.get("", responses=list_refusals())
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
