"""An upload: stored, or compared with what was stored under its Idempotency-Key."""

from functools import partial
from typing import Final

from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.errors import RetryLater
from wavetrim.service.storage.matrices.drafts import Settle
from wavetrim.service.storage.matrices.npy import NpyHeader
from wavetrim.service.storage.matrices.upload_keys import UploadKey
from wavetrim.service.threads import run_to_end

_READ_BYTES: Final = 4 * 2**20


class Upload:
    """The upload of one matrix.

    Args:
        body: Its body; only the header has been read.
        header: The body's header.
        on_disk: False if the matrix is kept in memory only.
        owner: Name of the tenant to whom it will belong.
        key: Its Idempotency-Key, if it has one.

    Attributes:
        body: As given.
        header: As given.
        on_disk: As given.
        owner: As given.
    """

    def __init__(
        self,
        body: BodyReader,
        header: NpyHeader,
        *,
        on_disk: bool,
        owner: str,
        key: UploadKey | None,
    ) -> None:
        self.body = body
        self.header = header
        self.on_disk = on_disk
        self.owner = owner
        self._key = key
        # The matrix's description, independent of how its header is written.
        about = (*header.shape, header.dtype, header.fortran_order, on_disk)
        self._digest = None if key is None else body.hash_rest(repr(about).encode())

    async def find_first(self) -> str | None:
        """The id of the matrix that an earlier upload with the key has stored; None without one.

        The body is then read and compared, but not stored, so a repeated upload needs no room.

        Raises:
            UploadKeyTaken: The body has another matrix.
        """
        first = None if self._key is None else await run_to_end(self._key.find)
        if first is None:
            return None
        assert self._digest is not None
        buffer = memoryview(bytearray(min(self.header.data_bytes, _READ_BYTES)))
        left = self.header.data_bytes
        while left:
            piece = buffer[:left]
            left -= len(piece)
            await self.body.read_into(piece, behind_bytes=left)
        await self.body.finish(self.header.file_bytes)
        first.expect_same(self._digest.hexdigest())
        return first.matrix

    async def find_winner(self) -> str:
        """The id of the matrix that another upload stored under the key meanwhile.

        Raises:
            UploadKeyTaken: That is another matrix.
            RetryLater: It is deleted already.
        """
        assert self._key is not None, "only an upload with a key can lose it to another"
        assert self._digest is not None
        first = await run_to_end(self._key.find)
        if first is None:
            raise RetryLater("the matrix under this Idempotency-Key was just deleted", 1)
        first.expect_same(self._digest.hexdigest())
        return first.matrix

    def settle(self, matrix_id: str) -> Settle | None:
        """The change that adds the key when the matrix is published; all elements must be read."""
        if self._key is None or self._digest is None:
            return None
        digest = self._digest.hexdigest()
        return partial(self._key.add, matrix_id=matrix_id, digest_sha256=digest)
