"""Health: whether the process answers, and whether it can work. Open: neither needs the API key."""

import tempfile
from pathlib import Path

import sqlalchemy
from fastapi import APIRouter, Response
from sqlalchemy.exc import SQLAlchemyError

from wavetrim.service.api.openapi import describe_refusal
from wavetrim.service.api.parts import DatabasePart, DispatcherPart, EnginePart, SettingsPart
from wavetrim.service.api.problems import ProblemKind, write_problem
from wavetrim.service.api.schemas import HealthView
from wavetrim.service.storage.database import reading

router = APIRouter(prefix="/healthz", tags=["health"])

_NOT_READY = ProblemKind(503, "not-ready", "Not ready")


@router.get("/live")
async def tell_live() -> HealthView:
    """Tell that the process answers."""
    return HealthView(status="live")


@router.get("/ready", response_model=HealthView, responses={503: describe_refusal(503)})
def tell_ready(
    database: DatabasePart, settings: SettingsPart, engine: EnginePart, dispatcher: DispatcherPart
) -> HealthView | Response:
    """Tell whether jobs can be taken and computed; if not, what is missing."""
    checks = {
        "database": _reach(database),
        "data_dir": _write(settings.matrix_dir),
        "engine": None if engine.ready else f"the engine is {engine.state}",
        "service": "it is stopping" if dispatcher.draining else None,
    }
    missing = {name: reason for name, reason in checks.items() if reason is not None}
    if not missing:
        return HealthView(status="ready")
    detail = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
    return write_problem(
        _NOT_READY, detail, headers={"Retry-After": "1"}, members={"missing": missing}
    )


def _reach(database: sqlalchemy.Engine) -> str | None:
    try:
        with reading(database) as connection:
            connection.execute(sqlalchemy.text("SELECT 1"))
    except SQLAlchemyError as error:
        return f"it cannot be reached ({type(error).__name__})"
    return None


def _write(folder: Path) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"it cannot be written to ({error.strerror})"
