"""Which matrix an upload has stored under its Idempotency-Key.

The key is added in the transaction that publishes the matrix, and removed with the matrix. So a
caller who got no answer uploads again, and either finds the first matrix or stores it.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.tables import scope_key, upload_keys
from wavetrim.service.storage.errors import UploadKeyTaken


class AlreadyUploaded(Exception):
    """Another upload with the key was published first."""


@dataclass(frozen=True, slots=True)
class UploadKey:
    """The Idempotency-Key of an upload.

    Attributes:
        text: The key.
        owner: Name of the tenant who has sent it; keys of two tenants never meet.
        database: Where keys are stored.
    """

    text: str
    owner: str
    database: Engine

    def add(self, connection: Connection, matrix_id: str, digest_sha256: str) -> None:
        """Adds the key, in the transaction that publishes the matrix.

        Args:
            connection: The transaction.
            matrix_id: The matrix.
            digest_sha256: SHA-256 in hexadecimal of shape, type, order, storage and elements.

        Raises:
            AlreadyUploaded: It belongs to another matrix.
        """
        key = scope_key(self.owner, self.text)
        row = {"key": key, "matrix": matrix_id, "digest_sha256": digest_sha256}
        try:
            connection.execute(insert(upload_keys).values(row))
        except IntegrityError as error:
            raise AlreadyUploaded(self.text) from error

    def find(self, digest_sha256: str | None = None) -> str | None:
        """Id of the matrix that is stored under the key; None if there is none.

        Args:
            digest_sha256: SHA-256 of the matrix that is uploaded now, as for `add`; None if it has
                not come yet.

        Raises:
            UploadKeyTaken: The key has stored another matrix.
        """
        is_it = upload_keys.c.key == scope_key(self.owner, self.text)
        wanted = select(upload_keys.c.matrix, upload_keys.c.digest_sha256).where(is_it)
        with reading(self.database) as connection:
            row = connection.execute(wanted).one_or_none()
        if row is not None and digest_sha256 not in (None, row.digest_sha256):
            raise UploadKeyTaken(self.text, row.matrix)
        return None if row is None else str(row.matrix)
