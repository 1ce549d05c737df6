"""Which matrix an upload has stored under its Idempotency-Key.

The key is added in the transaction that publishes the matrix, and removed with the matrix. So a
caller who got no answer uploads again, and either finds the first matrix or stores it.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from wavetrim.service.storage.database.database import reading
from wavetrim.service.storage.database.ownership import scope_key
from wavetrim.service.storage.database.tables import upload_keys
from wavetrim.service.storage.errors import UploadKeyTaken


class AlreadyUploaded(Exception):
    """Another upload with the key was published first.

    Attributes:
        upload: The upload that was not published.
    """

    def __init__(self, upload: "KeptUpload") -> None:
        super().__init__(upload.key.text)
        self.upload = upload


@dataclass(frozen=True, slots=True)
class KeptUpload:
    """What was stored under a key.

    Attributes:
        key: The upload's Idempotency-Key.
        matrix: Id of the matrix.
        digest_sha256: SHA-256 in hexadecimal of shape, type, order, place and elements.
    """

    key: "UploadKey"
    matrix: str
    digest_sha256: str

    def add_row(self, connection: Connection) -> None:
        """Adds the key, in the transaction that publishes the matrix.

        Raises:
            AlreadyUploaded: It belongs to another matrix.
        """
        row = {"key": self.key.kept, "matrix": self.matrix, "digest_sha256": self.digest_sha256}
        try:
            connection.execute(insert(upload_keys).values(row))
        except IntegrityError as error:
            raise AlreadyUploaded(self) from error

    def expect_same(self, digest_sha256: str) -> None:
        """Makes sure that another upload with the key has the same matrix.

        Raises:
            UploadKeyTaken: It has another one.
        """
        if digest_sha256 != self.digest_sha256:
            raise UploadKeyTaken(self.key.text, self.matrix)


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

    @property
    def kept(self) -> str:
        """The key as it is in its row."""
        return scope_key(self.owner, self.text)

    def keep(self, matrix_id: str, digest_sha256: str) -> KeptUpload:
        """The record of an upload with the key."""
        return KeptUpload(self, matrix_id, digest_sha256)

    def find(self) -> KeptUpload | None:
        """What is stored under the key, if anything."""
        wanted = select(upload_keys.c.matrix, upload_keys.c.digest_sha256)
        with reading(self.database) as connection:
            row = connection.execute(wanted.where(upload_keys.c.key == self.kept)).one_or_none()
        return None if row is None else self.keep(row.matrix, row.digest_sha256)
