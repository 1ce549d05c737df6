"""A job's operands and the memory of its product, made ready before the engine begins.

Operands in the arena were checked on their way there, and nobody else can write to them. A file can
be changed between its check and the last row of the product. So it is checked again after the
product: every change alters a file's times, so one with the same signature has not changed.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.operands import Operands, find_matrices
from wavetrim.service.jobs.result import Result, begin_result
from wavetrim.service.storage.arena.extent import Hold
from wavetrim.service.storage.matrices.draft import locate
from wavetrim.service.storage.matrices.file_checks import FileChecks, Signature
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.memory.room import Room
from wavetrim.service.threads import run_to_end


class MappedOperands:
    """The files that one job's product is computed from.

    Args:
        checks: Reads and compares them.
    """

    def __init__(self, checks: FileChecks) -> None:
        self._checks = checks
        self._found: dict[Matrix, Signature] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._found)

    def add(self, matrix: Matrix) -> None:
        """Check a file from which the engine will read.

        Raises:
            MatrixDamaged: It is not as it was stored.
            MatrixNotFound: The matrix was deleted meanwhile.
        """
        self._found[matrix] = self._checks.verify(matrix)

    def find_changed(self) -> Matrix | None:
        """A matrix whose file was changed since it was checked; None if there is none."""
        for matrix, found in self._found.items():
            if self._checks.sign(matrix) != found:
                return matrix
        return None

    def check_again(self) -> None:
        """Check all of them, before another try.

        Raises:
            MatrixDamaged: One is not as it was stored.
            MatrixNotFound: One was deleted meanwhile.
        """
        for matrix in self._found:
            self.add(matrix)


@dataclass(frozen=True, slots=True)
class Work:
    """What all tries of a job use.

    Attributes:
        request: The product.
        rooms: The memory that it lies in.
        result: Where it is written.
        mapped: The operands that are read from their files.
    """

    request: RunRequest
    rooms: tuple[Room, ...]
    result: Result
    mapped: MappedOperands


async def prepare(
    job: Job,
    operands: Operands,
    stack: AsyncExitStack,
    *,
    matrices: MatrixStore,
    kept: KeptMatrices,
) -> Work:
    """Brings a job's operands into memory and makes room for its product.

    Args:
        job: The job.
        operands: Its matrices.
        stack: Lets go of the operands, and of the part of the owner's quota, when it is closed.
        matrices: Files and rows.
        kept: Where matrices lie.

    Raises:
        ServiceError: A matrix is gone or damaged, or there is no room for the product.
    """
    mapped = MappedOperands(matrices.checks)
    found: list[Operand | None] = []
    rooms: list[Room] = []
    for matrix in operands:
        hold = None if matrix is None else await kept.load(matrix, "job")
        if hold is not None:
            stack.callback(hold.release)
            rooms.append(hold.extent)
        found.append(None if matrix is None else await _locate(matrix, hold, mapped))
    a, b, c = found
    assert a is not None
    assert b is not None
    shape = a.rows, b.columns, a.dtype
    planned, _ = matrices.describe(*shape)
    await stack.enter_async_context(matrices.stored.reserve(job.owner, planned.size_bytes))
    asked = job.request
    result = await begin_result(
        matrices, kept, shape, storage=asked.get("storage", "disk"), owner=job.owner
    )
    request = RunRequest(
        job=job.id,
        a=a,
        b=b,
        c=c,
        out=result.operand,
        row_step=result.row_step,
        b_key=job.b,
        alpha=asked["alpha"],
        beta=asked["beta"],
        verify=asked["verify"],
        options=PlanOptions.read(asked),
    )
    return Work(request, (*rooms, *result.rooms), result, mapped)


async def _locate(matrix: Matrix, hold: Hold | None, mapped: MappedOperands) -> Operand:
    """Where the engine finds a matrix: in the arena, or in its file, which is checked."""
    if hold is not None:
        return locate(matrix, hold)
    await run_to_end(mapped.add, matrix)
    return Operand(**matrix.operand())


def check_files(job: Job, matrices: MatrixStore, mapped: MappedOperands) -> None:
    """Makes sure that operands on disk are as they were stored.

    Raises:
        MatrixDamaged: One is not.
        MatrixNotFound: One was deleted meanwhile.
    """
    for matrix in find_matrices(job, matrices):
        if matrix is not None and matrix.place == "disk":
            matrices.checks.verify(matrix)
    mapped.check_again()
