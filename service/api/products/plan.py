"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import Field

from wavetrim.scheduler.errors import PlanError
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import GpuModel
from wavetrim.scheduler.profile.what_if import (
    LEAST_RATE,
    MOST_GBYTES_PER_SECOND,
    MOST_GFLOPS,
    MOST_THREADS,
    NOTHING_ELSE,
    WhatIf,
    apply_what_if,
    derive_sheet,
)
from wavetrim.service.api.calls import Call, CallRoute, make_answer
from wavetrim.service.api.products.plan_schemas import PlanView
from wavetrim.service.api.schemas import DtypeName, show_expected
from wavetrim.service.errors import FieldProblem
from wavetrim.service.option_fields import OptionQuery
from wavetrim.service.storage.memory.memory_limit import count_memory
from wavetrim.service.threads import run_to_end

router = APIRouter(prefix="/v1/plan", tags=["plan"], route_class=CallRoute)


MAX_SIZE: Final = 10_000_000
"""The largest M, N or K of a plan; chosen."""

Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]

DeviceName = Annotated[
    str | None,
    Field(
        max_length=100,
        description="A preset, several of one (H200 x2), a local GPU (cuda:0, its name or its "
        "UUID) or cpu; without it, this machine with all of its GPUs.",
        examples=["H200"],
    ),
]

_NEEDED: Final = ("sm_count", "clock_mhz", "compute_capability", "memory_gib")
_OTHERS: Final = ("memory_clock_mhz", "link_standard_gbytes_per_second", "gpus")


class PlanQuery(OptionQuery):
    """The product that a plan is made for: C[M,N] = A[M,K]·B[K,N].

    It may describe a GPU that is neither here nor a preset, by `_NEEDED` and `_OTHERS`.
    """

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
    m: Size = Field(description="Rows of A and C.", examples=[8192])
    n: Size = Field(description="Columns of B and C.", examples=[8192])
    k: Size = Field(description="Columns of A and rows of B.", examples=[8192])
    dtype: DtypeName = Field("float32", description="Element type.")
    memory: Memory = Field(
        "pageable",
        description="The host memory that the operands lie in: pageable (any array, a mapped file) "
        "or pinned (page-locked, such as the service's own, which the GPU accesses directly).",
    )
    device: DeviceName = None
    resident: bool = Field(
        False,
        description="What if B were on the GPUs already, as a stored matrix is that was B of many "
        "jobs.",
    )
    drawing: bool = Field(
        False,
        description="Whether the answer is for drawings: it then has the schedule, too.",
    )
    queued: bool = Field(
        False,
        description="Whether the answer has `expected`, too: when the product would begin and end "
        "if it were posted as a job now, on this machine.",
    )
    cpu_threads: int | None = Field(
        None,
        ge=1,
        le=MOST_THREADS,
        description="What if the CPU had this many threads: its rates grow with them.",
        examples=[64],
    )
    cpu_gflops: float | None = Field(
        None,
        ge=LEAST_RATE,
        le=MOST_GFLOPS,
        description="What if the CPU alone had this rate in this element type, in GFLOP/s.",
        examples=[3000],
    )
    link_gbytes_per_second: float | None = Field(
        None,
        ge=LEAST_RATE,
        le=MOST_GBYTES_PER_SECOND,
        description="What if the GPU's link had this rate each way, in 1e9 bytes a second.",
        examples=[25],
    )

    @property
    def described(self) -> GpuModel | None:
        """The GPU that is described; None if none is.

        Raises:
            PlanError: A device is named, too, or a property that is needed is missing.
        """
        given = self.model_dump(include={*_NEEDED, *_OTHERS}, exclude_none=True)
        if not given:
            return None
        if self.device is not None:
            limit = f"left out where {next(iter(given))} describes a GPU"
            raise PlanError("device", self.device, limit)
        for name in _NEEDED:
            if name not in given:
                limit = f"given: a GPU is described by {', '.join(_NEEDED)}"
                raise PlanError(name, None, limit)
        given.pop("gpus", None)
        major, minor = map(int, given.pop("compute_capability").split("."))
        return derive_sheet(**given, compute_capability=(major, minor))


@router.get("", response_model=PlanView)
async def get_plan(call: Call, query: Annotated[PlanQuery, Query()]) -> Response:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    problem = GemmProblem(query.m, query.n, query.k, query.dtype, query.memory, query.resident)
    described = query.described
    what_if = WhatIf(query.cpu_threads, query.cpu_gflops, query.link_gbytes_per_second)
    is_other = query.device is not None or described is not None or what_if != NOTHING_ELSE
    if query.queued and is_other:
        raise FieldProblem("queued", True, "false for a product on another machine, or a what-if")
    profiles = call.parts.engine.profiles

    def plan() -> dict[str, Any]:
        is_elsewhere = described is not None or profiles.is_elsewhere(query.device)
        problem.check_fits(None if is_elsewhere else count_memory())
        machine = profiles.find(query.device)
        if described is not None:
            machine = profiles.describe(described, query.gpus or 1)
        chosen = choose_plan(problem, apply_what_if(machine, what_if, query.dtype), query.options)
        return chosen.describe(drawing=query.drawing)

    async with call.parts.thinking:
        answer = await run_to_end(plan)
        if query.queued:
            ends = call.parts.dispatcher.ends
            expected = await ends.foresee_product(problem, query.options, call.tenant.name)
            answer["expected"] = show_expected(expected)
        return await run_to_end(make_answer, answer)
