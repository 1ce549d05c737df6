"""Plans: who would compute which rows, here or on a GPU that is not here."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.what_if import suppose
from wavetrim.service.api.openapi import list_refusals
from wavetrim.service.api.parts import EnginePart, ThinkingPart
from wavetrim.service.api.products.plan_schemas import PlanQuery, PlanView
from wavetrim.service.engine.engine import Engine
from wavetrim.service.storage.arena.memory_limit import count_memory
from wavetrim.service.threads import run_to_end

router = APIRouter(prefix="/v1/plan", tags=["plan"])


@router.get("", response_model=PlanView, responses=list_refusals())
async def get_plan(
    query: Annotated[PlanQuery, Query()], engine: EnginePart, thinking: ThinkingPart
) -> Response:
    """Plan a product: F, the kernel, the waves, and the predicted seconds over every F."""
    async with thinking:
        content = await run_to_end(_plan, query, engine)
    return Response(content, media_type="application/json")


def _plan(query: PlanQuery, engine: Engine) -> str:
    problem = GemmProblem(query.m, query.n, query.k, query.dtype, query.memory, query.resident)
    described = query.find_described(query.device)
    is_elsewhere = described is not None or engine.profiles.is_elsewhere(query.device)
    problem.check_fits(None if is_elsewhere else count_memory())
    profiles = engine.profiles
    machine = profiles.describe(described) if described else profiles.find(query.device)
    plan = choose_plan(problem, suppose(machine, query.what_if, query.dtype), query.options)
    return PlanView.model_validate(plan.describe(drawing=query.drawing)).model_dump_json()
