"""Health: whether the process answers, and whether it can work. Open: neither needs the API key."""

import tempfile
from pathlib import Path
from typing import Any, Final, Literal

import sqlalchemy
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.api.calls import Call, CallRoute, make_answer
from wavetrim.service.api.openapi import describe_status
from wavetrim.service.api.problems import NOT_READY, write_problem
from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import metadata
from wavetrim.service.storage.errors import DatabaseTaken

router = APIRouter(tags=["health"], route_class=CallRoute)


class HealthView(BaseModel):
    """The service answers."""

    status: Literal["live", "ready", "degraded"] = Field(
        description="live, ready, or degraded: ready, but without a GPU that it had or should have."
    )
    detail: str | None = Field(None, description="What a degraded service lacks.")


@router.get("/healthz/live", response_model=HealthView)
@router.get("/v2/health/live", response_model=HealthView, operation_id="get_server_live")
async def get_live(_call: Call) -> Response:
    """Tell that the process answers."""
    return make_answer({"status": "live"})


_READY: Final[dict[str, Any]] = {
    "response_model": HealthView,
    "responses": {503: describe_status(503)},
}


@router.get("/healthz/ready", **_READY)
@router.get("/v2/health/ready", operation_id="get_server_ready", **_READY)
def get_ready(call: Call) -> Response:
    """Tell whether jobs can be taken and computed; if not, what is missing."""
    parts, engine = call.parts, call.parts.engine
    matrices = parts.matrices
    checks = {
        "database": _reach(parts.database) or matrices.commits.failure,
        "data_dir": _write(parts.settings.matrix_dir) or matrices.stored.failure,
        "engine": None if engine.ready else f"the engine is {engine.state}",
        "service": "it is stopping" if parts.dispatcher.draining else None,
    }
    missing = {name: reason for name, reason in checks.items() if reason is not None}
    if not missing and engine.degraded is not None:
        return make_answer({"status": "degraded", "detail": engine.degraded})
    if not missing:
        return make_answer({"status": "ready"})
    detail = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
    return write_problem(
        NOT_READY, detail, headers={"Retry-After": "1"}, members={"missing": missing}
    )


def _reach(database: sqlalchemy.Engine) -> str | None:
    """Read a row of each table, which notices more than a statement without a table."""
    try:
        with reading(database) as connection:
            for table in metadata.tables.values():
                connection.execute(sqlalchemy.select(table).limit(1)).first()
    except SQLAlchemyError as error:
        if isinstance(getattr(error, "orig", None), DatabaseTaken):
            return "another running service uses it"
        return f"it cannot be reached ({type(error).__name__})"
    return None


def _write(folder: Path) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"it cannot be written to ({error.strerror})"
