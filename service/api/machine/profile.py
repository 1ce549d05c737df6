"""Profiles: all numbers that a machine's plans are made from, for planning elsewhere."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.model.corrections import RunClass
from wavetrim.scheduler.model.cpu import CpuModel
from wavetrim.scheduler.profile.joint import JointLinks
from wavetrim.scheduler.profile.machine import GpuModel, KernelModel, LinkModel
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import EnginePart
from wavetrim.service.api.products.plan_schemas import DeviceName

router = APIRouter(prefix="/v1/profile", tags=["plan"])


class ProfileQuery(BaseModel):
    """Whose profile is asked for."""

    model_config = ConfigDict(extra="forbid")

    device: DeviceName = None


class CorrectionView(BaseModel):
    """How the runs of a product, by one part of a plan, correct predictions."""

    model_config = ConfigDict(from_attributes=True)

    run_class: RunClass = Field(description="The product and the part.")
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
    kernels: list[KernelModel] = Field(
        description="Staircases: slots, and seconds of a wave, for each kernel, type and tile."
    )
    joint: list[JointLinks] = Field(
        description="What the machine's links reach while several GPUs copy, as far as measured."
    )
    peer_gbytes_per_second: float = Field(
        description="Rate from one GPU of the machine to another while that copies back, 1e9 "
        "bytes a second; 0 where they cannot, or where it was not measured."
    )


class MachineView(GpuView):
    """A machine as the model knows it: its first GPU, and what is beside it."""

    beside: list[GpuView] = Field(description="The machine's other GPUs, in CUDA's order.")
    cpu: CpuModel = Field(description="The CPU: rates by type, and how it is shared in a split.")
    corrections: list[CorrectionView] = Field(
        description="How runs here correct predictions, for each product that ran; they also "
        "correct products that take about as long on the same device."
    )


@router.get("", responses=list_refusals())
def get_profile(query: Annotated[ProfileQuery, Query()], engine: EnginePart) -> MachineView:
    """Show all numbers that plans for a machine are made from."""
    profile = engine.profiles.find(query.device)
    corrections = [CorrectionView.model_validate(one) for one in profile.corrections.list_all()]
    return MachineView(
        **GpuView.model_validate(profile).model_dump(),
        beside=[GpuView.model_validate(one) for one in profile.beside],
        cpu=profile.cpu,
        corrections=corrections,
    )
