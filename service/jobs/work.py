"""A job's operands and the memory of its product, made ready before the engine begins.

Operands in the arena were checked on their way there, and nobody else can write to them. A file can
be changed between its check and the last row of the product. So it is checked again after the
product: every change alters a file's times, so one with the same signature has not changed.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.operands import find_matrices, find_stack
from wavetrim.service.jobs.request import make_product
from wavetrim.service.storage.errors import MatrixNotFound
from wavetrim.service.storage.matrices.draft import Draft
from wavetrim.service.storage.matrices.file_checks import FileChecks, Signature
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.memory.extent import Extent
from wavetrim.service.threads import run_to_end

_STEP_BYTES: Final = 8 * 2**20
"""Final bytes of a result on disk after which the engine sends a message about them."""


@dataclass(slots=True)
class Work:
    """What all tries of a job use.

    Attributes:
        request: The product.
        extents: The memory that it lies in.
        operands: A, B and, if there is one, C.
        files: Those that the engine reads from their files, as these were when checked.
        draft: The result, which is not published yet.
        is_handed_over: Whether its publication has begun, which ends the draft.
    """

    request: RunRequest
    extents: tuple[Extent, ...]
    operands: Sequence[Matrix]
    files: dict[Matrix, Signature]
    draft: Draft
    is_handed_over: bool = False


@asynccontextmanager
async def prepare(job: Job, matrices: MatrixStore) -> AsyncIterator[Work]:
    """Brings a job's operands into memory and makes room for its product, until the block ends.

    Raises:
        ServiceError: A matrix is gone or damaged, or there is no room for the product.
    """
    ids = job.operands.values()
    known = await find_matrices(matrices, set(ids))
    files: dict[Matrix, Signature] = {}
    found: list[Operand] = []
    extents: list[Extent] = []
    with ExitStack() as holds:
        for name in ids:
            if (matrix := known.get(name)) is None:
                raise MatrixNotFound(name)
            if (hold := await matrices.load(matrix, "job")) is not None:
                holds.callback(hold.release)
                extents.append(hold.extent)
                found.append(matrix.locate(hold.extent))
            else:
                files[matrix] = await run_to_end(matrices.checks.verify, matrix)
                found.append(matrix.locate())
        described = matrices.drafts.describe(
            found[0].rows, found[1].columns, found[0].dtype,
            owner=job.owner, stack=find_stack(*found),
            on_disk=job.request.get("storage", "disk") == "disk",
        )  # fmt: skip
        draft = await matrices.drafts.begin(described)
        request = make_product(job.request, found, draft.matrix.locate(draft.hold.extent))
        # How many more final rows the engine tells of at a time.
        row_bytes = draft.matrix.size_bytes // max(1, draft.matrix.all_rows)
        row_step = 0 if draft.file is None else -(-_STEP_BYTES // row_bytes)
        request = replace(request, job=job.id, row_step=row_step, b_key=job.b)
        operands = [known[name] for name in ids]
        work = Work(request, (*extents, draft.hold.extent), operands, files, draft)
        try:
            yield work
        finally:
            if not work.is_handed_over:
                await draft.discard()


def find_changed(work: Work, checks: FileChecks) -> Matrix | None:
    """An operand whose file was changed since it was checked; None if there is none."""
    return next((one for one, found in work.files.items() if checks.sign(one) != found), None)


def check_files(work: Work, checks: FileChecks) -> None:
    """Makes sure, before another try, that operands on disk are as they were stored.

    Raises:
        MatrixDamaged: One is not.
    """
    signed = {one: checks.verify(one) for one in work.operands if one.on_disk}
    work.files = {one: signed[one] for one in work.files}
