"""An upload: stored, or compared with what was stored under its Idempotency-Key."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import RetryLater
from wavetrim.service.storage.draft import WRITE_BYTES, Draft
from wavetrim.service.storage.matrix import PendingMatrix
from wavetrim.service.storage.npy import NpyHeader
from wavetrim.service.storage.upload_keys import KeptUpload, UploadKey
from wavetrim.service.threads import run_to_end

Settle = Callable[[Connection], None]
"""Changes more rows in the transaction that publishes a matrix."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One matrix on its way in.

    Attributes:
        body: Its body.
        header: The body's header, which has been read.
        on_disk: False if it is to be kept in memory only.
        key: Its Idempotency-Key, if it has one.
    """

    body: BodyReader
    header: NpyHeader
    on_disk: bool
    key: UploadKey | None

    async def find_first(self) -> str | None:
        """The id of the matrix that an earlier upload with the key has stored, None without one.

        It is compared with the body, which is read for it and not stored: a repeated upload needs
        no room.

        Raises:
            UploadKeyTaken: The body is of another matrix.
        """
        first = None if self.key is None else await run_to_end(self.key.find)
        if first is None:
            return None
        digest = self._begin_digest()
        buffer = memoryview(bytearray(min(self.header.data_bytes, WRITE_BYTES)))
        left = self.header.data_bytes
        while left:
            piece = buffer[:left]
            left -= len(piece)
            await self.body.read_into(piece, behind_bytes=left)
            await run_to_end(digest.update, piece)
        await self.body.finish(self.header.file_bytes)
        first.expect_same(digest.hexdigest())
        return first.matrix

    async def find_winner(self, lost: KeptUpload) -> str:
        """The id of the matrix that was stored under the key while this one arrived.

        Raises:
            UploadKeyTaken: That is another matrix.
            RetryLater: It is deleted already.
        """
        assert self.key is not None, "only keys are lost to another upload"
        first = await run_to_end(self.key.find)
        if first is None:
            raise RetryLater("the matrix under this Idempotency-Key was just deleted", 1)
        first.expect_same(lost.digest_sha256)
        return first.matrix

    async def settle_draft(self, draft: Draft) -> Settle | None:
        """What keeps the key when a draft whose elements are there is published."""
        if self.key is None:
            return None
        digest = self._begin_digest()
        await run_to_end(digest.update, draft.view[draft.pending.offset_bytes :])
        return KeptUpload(self.key.text, draft.pending.id, digest.hexdigest()).add_row

    async def settle_file(self, pending: PendingMatrix) -> Settle | None:
        """What keeps the key when a file whose elements are there is published."""
        if self.key is None:
            return None
        digest = self._begin_digest()
        await run_to_end(_read_elements, pending, digest)
        return KeptUpload(self.key.text, pending.id, digest.hexdigest()).add_row

    def _begin_digest(self) -> Any:
        """SHA-256 of what the matrix is without its elements, however its header is written."""
        header = self.header
        about = (header.rows, header.columns, header.dtype, header.fortran_order, self.on_disk)
        return hashlib.sha256(repr(about).encode())


def _read_elements(pending: PendingMatrix, digest: Any) -> None:
    with pending.path.open("rb") as file:
        file.seek(pending.offset_bytes)
        hashlib.file_digest(file, lambda: digest)
