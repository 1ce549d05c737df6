"""A kept matrix as a body: received into the arena or a file, and sent from there."""

import asyncio
import hashlib

from anyio import CancelScope
from starlette.types import Receive, Scope, Send

from wavetrim.service.api.upload import Upload
from wavetrim.service.api.wire.body_file import receive_matrix
from wavetrim.service.api.wire.download import Sending, send_matrix
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.storage.draft import WRITE_BYTES, Draft
from wavetrim.service.storage.kept import KeptMatrices
from wavetrim.service.storage.matrices import MatrixStore
from wavetrim.service.storage.matrix import Matrix
from wavetrim.service.storage.upload_keys import AlreadyUploaded, UploadKey
from wavetrim.service.threads import run_to_end


async def receive_kept(
    body: BodyReader,
    store: MatrixStore,
    kept: KeptMatrices,
    *,
    on_disk: bool,
    key: UploadKey | None = None,
) -> tuple[Matrix, bool]:
    """Stores the body's only matrix, unless an earlier upload with the same key has done so.

    Args:
        body: The body; nothing of it has been read.
        store: Files and rows.
        kept: Brings it into the arena.
        on_disk: False if it is to be kept in memory only.
        key: The upload's Idempotency-Key.

    Returns:
        The matrix, and whether this call has stored it.

    Raises:
        NpyError: It is not a .npy file that is taken.
        BodyLengthWrong: It is shorter or longer than its header says.
        DigestMismatch: Its SHA-256 is another than Content-Digest says.
        StorageFull: There is no room for it.
        UploadKeyTaken: The key belongs to an upload of another matrix.
    """
    header, _ = await body.read_header()
    body.expect_length(header.file_bytes, f".npy header ({header})")
    upload = Upload(body, header, on_disk, key)
    first = await upload.find_first()
    if first is None:
        try:
            return await _store(upload, store, kept), True
        except AlreadyUploaded as error:
            first = await upload.find_winner(error.upload)
    return await run_to_end(store.get, first), False


async def _store(upload: Upload, store: MatrixStore, kept: KeptMatrices) -> Matrix:
    """Receives a matrix into the arena, and writes it to disk from there while it arrives."""
    body, header = upload.body, upload.header
    draft = await kept.begin(
        header.rows,
        header.columns,
        header.dtype,
        fortran_order=header.fortran_order,
        on_disk=upload.on_disk,
    )
    if draft is None:
        async with receive_matrix(body, header, store) as pending:
            await body.finish(header.file_bytes)
            settle = await upload.settle_file(pending)
            return await run_to_end(store.publish, pending, settle=settle)
    try:
        await _fill(draft, body)
        await body.finish(header.file_bytes)
        digest = None
        if body.digest is not None:  # of the stored file, whose header is padded
            digest = await run_to_end(_hash, draft.view)
        settle = await upload.settle_draft(draft)
    except BaseException:
        with CancelScope(shield=True):  # who is refused finds nothing left
            await asyncio.wait({asyncio.wrap_future(draft.discard())})
        store.release(draft.pending)
        raise
    return await kept.publish(draft, digest, settle=settle)


async def send_kept(scope: Scope, receive: Receive, send: Send, matrix_id: str) -> None:
    """Answers GET and HEAD with a stored matrix, whole or a single range of it.

    Raises:
        MatrixNotFound: There is none with this id.
        MatrixDamaged: Its file has changed since it was stored.
        RangeNotSatisfiable: The range begins behind the end of the file.
    """
    state = scope["app"].state
    matrix = await run_to_end(state.matrices.get, matrix_id)
    hold = state.kept.take(matrix, "socket out")
    how = Sending(state.matrices, state.metrics, state.settings.upload_idle_seconds)
    await send_matrix(scope, receive, send, matrix=matrix, hold=hold, how=how)


async def _fill(draft: Draft, body: BodyReader) -> None:
    """Receives the elements, and hands each part to the disk's writer as soon as it is there."""
    begin = draft.pending.offset_bytes
    await draft.write(0, begin)
    while begin < len(draft.view):
        end = min(begin + WRITE_BYTES, len(draft.view))
        await body.read_into(draft.view[begin:end], behind_bytes=len(draft.view) - end)
        await draft.write(begin, end)
        begin = end


def _hash(view: memoryview) -> str:
    return hashlib.sha256(view).hexdigest()
