"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated

from fastapi import APIRouter, Query

from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.what_if import suppose
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import EnginePart
from wavetrim.service.api.products.plan_schemas import PlanQuery, PlanView
from wavetrim.service.storage.arena.memory_limit import count_memory

router = APIRouter(prefix="/v1/plan", tags=["plan"])


@router.get("", responses=list_refusals())
def get_plan(query: Annotated[PlanQuery, Query()], engine: EnginePart) -> PlanView:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    problem = GemmProblem(query.m, query.n, query.k, query.dtype, query.memory, query.resident)
    problem.check_fits(None if engine.profiles.is_elsewhere(query.device) else count_memory())
    profile = suppose(engine.profiles.find(query.device), query.what_if, query.dtype)
    plan = choose_plan(problem, profile, query.options)
    return PlanView.model_validate(plan.describe())
