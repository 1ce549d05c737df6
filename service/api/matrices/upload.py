"""An upload: a matrix that is stored, or compared with what its Idempotency-Key has stored."""

import hashlib
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from wavetrim.service.api.calls import Call
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import RetryLater
from wavetrim.service.storage.database.shared_commits import Change
from wavetrim.service.storage.matrices.matrix import Matrix
from wavetrim.service.storage.matrices.npy import NpyHeader
from wavetrim.service.storage.matrices.upload_keys import AlreadyUploaded, UploadKey
from wavetrim.service.threads import run_to_end

_READ_BYTES: Final = 4 * 2**20


class Upload:
    """The upload of one matrix.

    Args:
        call: Its call.
        body: The call's body; nothing of it has been read.
        on_disk: False if the matrix is kept in memory only.
        key: Its Idempotency-Key, if it has one.
    """

    def __init__(self, call: Call, body: BodyReader, *, on_disk: bool, key: str | None) -> None:
        self._parts, self._tenant = call.parts, call.tenant
        self._body = body
        self._on_disk = on_disk
        database, owner = call.parts.database, call.tenant.name
        self._key = None if key is None else UploadKey(key, owner, database)
        self._left_bytes = 0

    async def receive(self) -> tuple[Matrix, bool]:
        """Store the matrix, unless an earlier upload with the same key has done so.

        Returns:
            The matrix, and whether this call has stored it.

        Raises:
            NpyError: It is not a .npy file that the service accepts.
            BodyLengthWrong: It is shorter or longer than its header says.
            DigestMismatch: Its SHA-256 differs from Content-Digest.
            StorageFull: There is no room for it, or the tenant's quota has none.
            QuotaReached: The tenant has as many bytes in flight as it may have.
            UploadKeyTaken: The key belongs to an upload of another matrix.
            RetryLater: The matrix under the key is deleted at this moment.
        """
        header = await self._body.read_header()
        self._body.expect_length(
            header.file_bytes,
            lambda: f".npy header ({header}); one file here, two for POST /v1/matmul",
        )
        self._left_bytes = header.data_bytes
        if self._key is None:
            return await self._keep(header, None), True
        # The matrix's description, independent of how its header is written.
        about = (*header.shape, header.dtype, header.fortran_order, self._on_disk)
        digest = self._body.hash_rest(repr(about).encode())
        if await run_to_end(self._key.find) is not None:
            await self._pass_over()
        else:
            with suppress(AlreadyUploaded):
                return await self._keep(header, digest), True
        first = await run_to_end(self._key.find, digest.hexdigest())
        if first is None:
            raise RetryLater("the matrix under this Idempotency-Key was just deleted", 1)
        return await run_to_end(self._parts.matrices.get, first), False

    async def _pass_over(self) -> None:
        """Read the elements to compare them, without storing them: that needs no room."""
        buffer = memoryview(bytearray(min(self._left_bytes, _READ_BYTES)))
        while self._left_bytes:
            await self._fill(buffer[: self._left_bytes])
        await self._body.finish()

    async def _keep(self, header: NpyHeader, digest: "hashlib._Hash | None") -> Matrix:
        """Receive the matrix into memory, within quotas, and write it to disk meanwhile."""
        described = self._parts.matrices.drafts.describe(
            header.rows, header.columns, header.dtype,
            fortran_order=header.fortran_order, owner=self._tenant.name, stack=header.stack,
            on_disk=self._on_disk,
        )  # fmt: skip
        with ExitStack() as taken:
            taken.callback(self._parts.in_flight.take(self._tenant, described.size_bytes))
            if self._on_disk:
                self._parts.descriptors.take(self._tenant.name, "files")
                taken.callback(self._parts.descriptors.give, self._tenant.name)
            return await self._write(described, digest)

    async def _write(self, described: Matrix, digest: "hashlib._Hash | None") -> Matrix:
        draft = await self._parts.matrices.drafts.receive(described, self._fill)
        settle: Change[None] | None = None
        stored_digest = None
        try:
            await self._body.finish()
            if self._body.digest is not None:  # of the stored file, whose header may be padded
                stored_digest = await run_to_end(_hash, draft.view)
            if self._key is not None and digest is not None:
                settle = partial(
                    self._key.add, matrix_id=described.id, digest_sha256=digest.hexdigest()
                )
        except BaseException:
            await draft.discard()  # nothing is left once the caller is refused
            raise
        return await draft.publish(stored_digest, settle=settle)

    async def _fill(self, view: memoryview) -> None:
        self._left_bytes -= len(view)
        await self._body.read_into(view, behind_bytes=self._left_bytes)


def _hash(view: memoryview) -> str:
    return hashlib.sha256(view).hexdigest()
