"""What a job is asked for: read from HTTP, and kept in its row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WrapValidator

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.service.clock import read_time
from wavetrim.service.jobs.operands import find_stack, fold
from wavetrim.service.option_fields import ProductOptions
from wavetrim.service.storage.matrices.matrix import Matrix

EXAMPLE_ID: Final = "0b8d3a6f5c2e4f1d9a7b6c5d4e3f2a1b"

MatrixId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$", description="Id of a matrix.")]


class JobOperand(BaseModel):
    """The result of another job: a job waits for it, fails with it, and is cancelled with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: str = Field(pattern=r"^[A-Za-z0-9]{1,40}$", description="Id of the job.")


def _check_operand(value: object, check: Callable[[object], object]) -> object:
    """Refuses what is neither; pydantic would list the faults of both."""
    try:
        return check(value)
    except ValidationError:
        raise ValueError('the id of a matrix, or {"job": the id of a job}') from None


OperandName = Annotated[MatrixId | JobOperand, WrapValidator(_check_operand)]

Label = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="A word of the caller's own, by which jobs are found and cancelled.",
    ),
]

MOST_LABELS: Final = 8
"""Labels of one job; chosen."""

Priority = Annotated[
    int,
    Field(
        ge=-1000,
        le=1000,
        description="Among the caller's jobs the higher one goes first: 100 more count as twice "
        "the wait.",
    ),
]


def _check_time(value: str) -> str:
    try:
        read_time(value)
    except (ValueError, OverflowError):
        raise ValueError("a time with its zone, such as 2026-03-01T12:00:00Z") from None
    return value


Time = Annotated[
    str,
    AfterValidator(_check_time),
    Field(max_length=40, json_schema_extra={"format": "date-time"}),
]


class JobRequest(ProductOptions):
    """A product to be computed: result = alpha · A·B + beta · C."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        json_schema_extra={
            "examples": [
                {"a": "5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e2f", "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80"},
                {
                    "a": "5f0c7d2e9b1a4c3d8e6f7a8b9c0d1e2f",
                    "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80",
                    "c": "c0ffee00d5e6f708192a3b4c5d6e7f80",
                    "alpha": 0.5,
                    "beta": 1.0,
                    "kernel": "bulk",
                    "tile": "128x256x16",
                    "f": 256,
                    "accuracy": "strict",
                    "sms": 66,
                    "verify": True,
                    "priority": 10,
                    "labels": ["night", "run 7"],
                    "deadline": "2026-03-01T12:05:00Z",
                    "timeout_seconds": 60.0,
                },
                {
                    "a": {"job": EXAMPLE_ID},
                    "b": "91c2b3a4d5e6f708192a3b4c5d6e7f80",
                },
            ]
        },
    )

    a: OperandName = Field(description="A, M x K: the id of a matrix, or a job whose result it is.")
    b: OperandName = Field(description="B, K x N, of A's element type; likewise.")
    c: OperandName | None = Field(
        None, description="C, M x N, needed when beta is not 0; likewise."
    )
    storage: Literal["disk", "memory"] = Field(
        "disk",
        description="Where the product is kept: on disk, durable when the job has succeeded, or in "
        "memory only, until the service ends; on disk, too, if the arena has no room for it.",
    )
    priority: Priority = 0
    labels: list[Label] = Field([], max_length=MOST_LABELS, description="Its labels.")
    deadline: Time | None = Field(
        None,
        description="When the job must have ended: it is refused if it should end later, and fails "
        "then.",
    )
    timeout_seconds: float | None = Field(
        None,
        gt=0,
        description="How long it may run, from its begin; at most WAVETRIM_JOB_TIMEOUT_SECONDS.",
    )


def make_product(
    asked: Mapping[str, Any], operands: Sequence[Matrix | Operand], out: Operand | None = None
) -> RunRequest:
    """The product of a job's request; a stack may be one product.

    Args:
        asked: The request, as its row has it.
        operands: Where A, B and, if there is one, C lie; matrices that are not in memory yet, or
            only their shapes.
        out: Where the result lies; None if that is not known yet.
    """
    first, second, *rest = map(_locate, operands)
    third = rest[0] if rest else None
    stack = find_stack(first, second, third)
    out = out or Operand(0, 0, first.rows, second.columns, first.dtype, stack=stack)
    product = RunRequest(
        "", first, second, third, out, alpha=asked["alpha"], beta=asked["beta"],
        verify=asked["verify"], options=PlanOptions.read(asked),
    )  # fmt: skip
    return fold(product)


def _locate(matrix: Matrix | Operand) -> Operand:
    """A matrix as an operand without an address."""
    if isinstance(matrix, Operand):
        return matrix
    return replace(matrix.locate(), slab=0, offset_bytes=0)
