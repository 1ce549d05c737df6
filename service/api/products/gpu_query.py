"""A GPU that the query of a plan describes, in place of one that it names."""

from typing import Final

from pydantic import Field

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.profile.what_if import (
    LEAST_RATE,
    MOST_GBYTES_PER_SECOND,
    DescribedGpu,
)
from wavetrim.service.option_fields import OptionQuery

_NEEDED: Final = ("sm_count", "clock_mhz", "compute_capability", "memory_gib")
_OTHERS: Final = ("memory_clock_mhz", "link_standard_gbytes_per_second", "gpus")


class GpuQuery(OptionQuery):
    """Properties of a GPU that is neither here nor a preset: the first four, or none."""

    sm_count: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Multiprocessors of a GPU that is described in place of `device`, with "
        "`clock_mhz`, `compute_capability` and `memory_gib`. What these do not say is assumed, as "
        "of a GPU that was not calibrated.",
        examples=[108],
    )
    clock_mhz: int | None = Field(
        None, ge=1, le=100_000, description="Clock of its multiprocessors.", examples=[1410]
    )
    compute_capability: str | None = Field(
        None,
        pattern=r"^[1-9][0-9]?\.[0-9]$",
        description="Its compute capability, major and minor number.",
        examples=["8.0"],
    )
    memory_gib: int | None = Field(
        None, ge=1, le=100_000, description="Its memory, GiB.", examples=[40]
    )
    memory_clock_mhz: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Clock of its memory, of a bus of 256 bits; without it, that of its "
        "multiprocessors.",
        examples=[1215],
    )
    link_standard_gbytes_per_second: float | None = Field(
        None,
        ge=LEAST_RATE,
        le=MOST_GBYTES_PER_SECOND,
        description="Rate of its link each way by the link's standard, 1e9 bytes a second; "
        "without it, that of PCIe 3.",
        examples=[31.5],
    )
    gpus: int | None = Field(
        None, ge=1, le=8, description="How many of it the machine has; without it, one."
    )

    def find_described(self, device: str | None) -> DescribedGpu | None:
        """The GPU that is described; None if none is.

        Args:
            device: The device that is named beside it.

        Raises:
            PlanError: A device is named, too, or a property that is needed is missing.
        """
        given = [name for name in (*_NEEDED, *_OTHERS) if getattr(self, name) is not None]
        if not given:
            return None
        if device is not None:
            raise PlanError("device", device, f"left out where {given[0]} describes a GPU")
        needed = {name: getattr(self, name) for name in _NEEDED}
        for name, value in needed.items():
            if value is None:
                limit = f"given: a GPU is described by {', '.join(_NEEDED)}"
                raise PlanError(name, None, limit)
        major, minor = map(int, needed.pop("compute_capability").split("."))
        return DescribedGpu(
            **needed,
            compute_capability=(major, minor),
            memory_clock_mhz=self.memory_clock_mhz,
            link_standard_gbytes_per_second=self.link_standard_gbytes_per_second,
            count=self.gpus or 1,
        )
