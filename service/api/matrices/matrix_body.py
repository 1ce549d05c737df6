"""A stored matrix as a body: received into memory, and sent from there."""

import hashlib

from wavetrim.service.api.admission.call import Call
from wavetrim.service.api.matrices.download import send_matrix
from wavetrim.service.api.matrices.upload import Upload
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.upload_keys import AlreadyUploaded, UploadKey
from wavetrim.service.tenants.bytes_in_flight import BytesInFlight
from wavetrim.service.tenants.tenant import Tenant
from wavetrim.service.threads import run_to_end


async def receive_kept(
    body: BodyReader,
    store: MatrixStore,
    *,
    on_disk: bool,
    tenant: Tenant,
    in_flight: BytesInFlight,
    key: UploadKey | None = None,
) -> tuple[Matrix, bool]:
    """Stores the matrix of a body, unless an earlier upload with the same key has done so.

    Args:
        body: The body; nothing of it has been read.
        store: Where it is stored.
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
        described = store.drafts.describe(
            header.rows, header.columns, header.dtype,
            fortran_order=header.fortran_order, owner=tenant.name, stack=header.stack,
        )  # fmt: skip
        give_back = in_flight.take(tenant, described.size_bytes)
        try:
            async with store.stored.reserve(tenant.name, described.size_bytes):
                return await _store(upload, described, store), True
        except AlreadyUploaded:
            first = await upload.find_winner()
        finally:
            give_back()
    return await run_to_end(store.get, first), False


async def _store(upload: Upload, described: Matrix, store: MatrixStore) -> Matrix:
    """Receives a matrix into memory, and writes it to disk meanwhile."""
    body, left_bytes = upload.body, upload.header.data_bytes

    async def fill(view: memoryview) -> None:
        nonlocal left_bytes
        left_bytes -= len(view)
        await body.read_into(view, behind_bytes=left_bytes)

    draft = await store.drafts.receive(described, fill, on_disk=upload.on_disk)
    try:
        await body.finish(upload.header.file_bytes)
        digest = None
        if body.digest is not None:  # of the stored file, whose header may be padded
            digest = await run_to_end(_hash, draft.view)
        settle = upload.settle(described.id)
    except BaseException:
        await draft.discard()  # nothing is left once the caller is refused
        raise
    return await draft.publish(digest, settle=settle)


async def send_kept(call: Call, matrix_id: str) -> None:
    """Answers GET and HEAD with a stored matrix, whole or a single range of it.

    Raises:
        MatrixNotFound: There is none with this id.
        MatrixDamaged: Its file has changed since it was stored.
        ConditionFailed: If-Match has other tags than the matrix's.
        RangeNotSatisfiable: The range begins after the end of the file.
    """
    parts, tenant = call.parts, call.tenant
    matrix = await run_to_end(parts.matrices.get, matrix_id, tenant.sees)
    with parts.matrices.stored.sending(matrix):
        await send_matrix(call, matrix, parts.matrices.cache.take(matrix.id, "socket out"))


def _hash(view: memoryview) -> str:
    return hashlib.sha256(view).hexdigest()
