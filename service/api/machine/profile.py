"""Profiles: all numbers that a machine's plans are made from, for planning elsewhere."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from wavetrim.scheduler.model.corrections import RunClass
from wavetrim.scheduler.model.cpu import CpuModel
from wavetrim.scheduler.profile.machine import GpuModel, KernelModel, LinkModel
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import EnginePart

router = APIRouter(prefix="/v1/profile", tags=["plan"])


class ProfileQuery(BaseModel):
    """Whose profile is asked for."""

    model_config = ConfigDict(extra="forbid")

    device: str | None = Field(
        None,
        max_length=100,
        description="A preset, a local GPU (cuda:0, its name or its UUID) or cpu; without it, "
        "this machine.",
        examples=["H200"],
    )


class CorrectionView(BaseModel):
    """How the runs of a product, by one part of a plan, correct predictions."""

    model_config = ConfigDict(from_attributes=True)

    run_class: RunClass = Field(description="The product and the part.")
    factor: float = Field(description="Median of measured over predicted seconds.")
    runs: int = Field(description="Runs that the factor is from.")


class MachineView(BaseModel):
    """A machine as the model knows it."""

    model_config = ConfigDict(from_attributes=True)

    device: str = Field(description='Name of the GPU, or "cpu".')
    source: str = Field(description="Where the profile as a whole comes from.")
    measured_at: str | None = Field(description="When it was measured; null for a preset.")
    gpu: GpuModel | None = Field(description="The GPU's data sheet; null without one.")
    links: list[LinkModel] = Field(description="The ways to it, one a kind of memory.")
    kernels: list[KernelModel] = Field(
        description="Staircases: slots, and seconds of a wave, for each kernel, type and tile."
    )
    cpu: CpuModel = Field(description="The CPU: rates by type, and how it is shared in a split.")
    corrections: list[CorrectionView] = Field(
        description="How runs here correct predictions, for each product that ran; they also "
        "correct products that take about as long on the same device."
    )


@router.get("", responses=list_refusals())
def get_profile(query: Annotated[ProfileQuery, Query()], engine: EnginePart) -> MachineView:
    """Show all numbers that plans for a machine are made from."""
    profile = engine.profiles.find(query.device)
    return MachineView(
        device=profile.device,
        source=profile.source,
        measured_at=profile.measured_at,
        gpu=profile.gpu,
        links=list(profile.links),
        kernels=list(profile.kernels),
        cpu=profile.cpu,
        corrections=[CorrectionView.model_validate(one) for one in profile.corrections.list_all()],
    )
