"""A stored matrix as a body: received into the arena or a file, and sent from there."""

import asyncio
import hashlib
from dataclasses import dataclass

from anyio import CancelScope
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.admission.auth import find_tenant
from wavetrim.service.api.matrices.body_file import receive_matrix
from wavetrim.service.api.matrices.download import Sending, send_matrix
from wavetrim.service.api.matrices.upload import Upload
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.storage.arena.errors import ArenaFull
from wavetrim.service.storage.matrices.draft import WRITE_BYTES, Draft
from wavetrim.service.storage.matrices.kept import KeptMatrices
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix, PendingMatrix
from wavetrim.service.storage.matrices.upload_keys import AlreadyUploaded, UploadKey
from wavetrim.service.storage.memory.intake import Intake
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end


async def receive_kept(
    body: BodyReader,
    store: MatrixStore,
    kept: KeptMatrices,
    *,
    on_disk: bool,
    tenant: Tenant,
    in_flight: BytesInFlight,
    key: UploadKey | None = None,
) -> tuple[Matrix, bool]:
    """Stores the matrix of a body, unless an earlier upload with the same key has done so.

    Args:
        body: The body; nothing of it has been read.
        store: Files and rows.
        kept: Brings it into the arena.
        on_disk: False if it is kept in memory only.
        tenant: Owner of the matrix.
        in_flight: Counts the bytes of tenants' requests.
        key: The upload's Idempotency-Key.

    Returns:
        The matrix, and whether this call has stored it.

    Raises:
        NpyError: It is not a .npy file that the service accepts.
        BodyLengthWrong: It is shorter or longer than its header says.
        DigestMismatch: Its SHA-256 differs from Content-Digest.
        StorageFull: There is no room for it, or the tenant's quota has none.
        QuotaReached: The tenant has as many bytes in flight as it may have.
        UploadKeyTaken: The key belongs to an upload of another matrix.
    """
    header, _ = await body.read_header()
    body.expect_length(
        header.file_bytes, f".npy header ({header}); one file here, two for POST /v1/matmul"
    )
    upload = Upload(body, header, on_disk=on_disk, owner=tenant.name, key=key)
    first = await upload.find_first()
    if first is None:
        planned, _ = store.describe(header.rows, header.columns, header.dtype)
        give_back = in_flight.take(tenant, planned.size_bytes)
        try:
            async with store.stored.reserve(tenant.name, planned.size_bytes):
                return await _store(upload, store, kept), True
        except AlreadyUploaded as error:
            first = await upload.find_winner(error.upload)
        finally:
            give_back()
    return await run_to_end(store.get, first), False


async def _store(upload: Upload, store: MatrixStore, kept: KeptMatrices) -> Matrix:
    """Receives a matrix into the arena, or into a file if that has no room."""
    header = upload.header
    pending, head = await run_to_end(
        store.begin,
        header.rows,
        header.columns,
        header.dtype,
        fortran_order=header.fortran_order,
        on_disk=upload.on_disk,
        owner=upload.owner,
    )
    arrival = _Arrival(upload, store, kept, pending, head)
    with kept.open_intake(pending) as intake:
        try:
            await intake.open(lambda view: arrival.read_into(view, intake.filled_bytes))
        except ArenaFull:
            if upload.on_disk:
                return await arrival.receive_in_file(intake)
            raise
        except BaseException:
            store.release(pending)
            raise
        return await arrival.receive_in_memory(intake)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A matrix that is being received.

    Attributes:
        upload: Its body.
        store: Files and rows.
        kept: The arena.
        pending: Its description.
        head: The first bytes of its file.
    """

    upload: Upload
    store: MatrixStore
    kept: KeptMatrices
    pending: PendingMatrix
    head: bytes

    async def read_into(self, view: memoryview, begin: int) -> None:
        """Receives the elements that begin at a place in its file."""
        behind_bytes = self.pending.size_bytes - begin - len(view)
        await self.upload.body.read_into(view, behind_bytes=behind_bytes)

    async def receive_in_file(self, intake: Intake) -> Matrix:
        """Receives the rest into a file, after the bytes that have come already."""
        start = memoryview(b"")
        if intake.hold is not None:
            start = intake.hold.extent.view[len(self.head) : intake.filled_bytes]
        body, pending = self.upload.body, self.pending
        async with receive_matrix(body, pending, self.head, self.store, start):
            await body.finish(self.upload.header.file_bytes)
            settle = self.upload.settle(pending.id)
            return await run_to_end(self.store.publish, pending, settle=settle)

    async def receive_in_memory(self, intake: Intake) -> Matrix:
        """Receives the rest into the arena, and writes it to disk meanwhile."""
        body, hold = self.upload.body, intake.give_hold()
        draft = self.kept.begin_received(self.pending, self.head, hold, on_disk=self.upload.on_disk)
        try:
            await self._fill(draft, intake)
            await body.finish(self.upload.header.file_bytes)
            digest = None
            if body.digest is not None:  # of the stored file, whose header is padded
                digest = await run_to_end(_hash, draft.view)
            settle = self.upload.settle(draft.pending.id)
        except BaseException:
            with CancelScope(shield=True):  # nothing is left once the caller is refused
                await asyncio.wait({asyncio.wrap_future(draft.discard())})
            self.store.release(draft.pending)
            raise
        return await self.kept.publish(draft, digest, settle=settle)

    async def _fill(self, draft: Draft, intake: Intake) -> None:
        """Hands each part to the disk's writer as soon as it is there."""
        begin = intake.filled_bytes
        await draft.write(0, begin)
        while begin < len(draft.view):
            end = min(begin + WRITE_BYTES, len(draft.view))
            await self.read_into(draft.view[begin:end], begin)
            await draft.write(begin, end)
            self.kept.expect_written(draft)
            intake.note_filled(end)
            begin = end


async def send_kept(scope: Scope, receive: Receive, send: Send, matrix_id: str) -> None:
    """Answers GET and HEAD with a stored matrix, whole or a single range of it.

    Raises:
        MatrixNotFound: There is none with this id.
        MatrixDamaged: Its file has changed since it was stored.
        ConditionFailed: If-Match has other tags than the matrix's.
        RangeNotSatisfiable: The range begins after the end of the file.
    """
    state = scope["app"].state
    tenant = find_tenant(scope)
    matrix = await run_to_end(state.matrices.get, matrix_id, tenant.sees)
    how = Sending(
        state.matrices, state.metrics, IDLE_SECONDS,
        descriptors=state.descriptors, caller=tenant.name,
    )  # fmt: skip
    with state.matrices.stored.sending(matrix):
        hold = state.kept.take(matrix, "socket out")
        await send_matrix(scope, receive, send, matrix=matrix, hold=hold, how=how)


def _hash(view: memoryview) -> str:
    return hashlib.sha256(view).hexdigest()
