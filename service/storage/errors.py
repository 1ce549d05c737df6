"""Refusals of storage. `api.problems` says which HTTP status each has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wavetrim.service.errors import FieldProblem, RetryLater, ServiceError
from wavetrim.service.storage.lock_file import describe_service

_AGAIN_SECONDS: Final = 5
"""When to ask again after a failed write; chosen."""


class DatabaseRefused(ServiceError):
    """The service does not start with this database: locked, damaged, newer, or another's."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"the database {url} cannot be used: {reason}")


class DatabaseAway(DatabaseRefused):
    """The database's server cannot be reached now, but may be later."""


class DatabaseTaken(DatabaseAway):
    """Another service uses the database.

    Args:
        url: The database.
        holder: What is known of the other service.
        data_dir: The data folder of this one.
    """

    def __init__(self, url: str, holder: str, data_dir: Path) -> None:
        this = describe_service(data_dir)
        super().__init__(url, f"another running service uses it, {holder}; this is {this}")


class DataMismatch(ServiceError):
    """The service does not start: the database is not the one of the data folder."""

    def __init__(
        self, url: str, of_database: str | None, folder: Path, of_folder: str | None
    ) -> None:
        super().__init__(
            f"the database {url} (id {of_database or 'none'}) is not that of the data folder "
            f"{folder} (id {of_folder or 'none'}), and no matrix was touched; start with the "
            "database that belongs to the folder (WAVETRIM_DATABASE_URL, or a backup restored), or "
            "take the folder's matrices into this one with `wavetrim adopt`"
        )


class NpyError(FieldProblem):
    """The body is not a .npy file that the service takes."""


class DtypeRefused(NpyError):
    """The elements of a .npy file are of a type that the service does not multiply."""


class UploadKeyTaken(FieldProblem):
    """The Idempotency-Key belongs to an earlier upload of another matrix."""

    def __init__(self, idempotency_key: str, matrix_id: str) -> None:
        limit = f"a new key, or come with what was stored as matrix {matrix_id} under it"
        super().__init__("Idempotency-Key", idempotency_key, limit)


class StorageFull(FieldProblem):
    """There is no space for another matrix."""


class StorageFailed(RetryLater):
    """Files of matrices cannot be read or written: their disk is broken, read-only or away.

    Attributes:
        field: "data_dir".
        value: The folder.
        limit: What it must be, with the system's reason.
    """

    def __init__(self, folder: Path, reason: str) -> None:
        limit = f"a folder whose files can be read and written ({reason})"
        super().__init__(f"data_dir is '{folder}'; it must be {limit}", _AGAIN_SECONDS)
        self.field = "data_dir"
        self.value = str(folder)
        self.limit = limit


class StoredQuotaReached(StorageFull):
    """A tenant's quota of stored bytes is used up.

    Args:
        total_bytes: What it would have stored.
        most_bytes: Its quota.
    """

    def __init__(self, total_bytes: int, most_bytes: int) -> None:
        limit = f"at most {most_bytes}, the key's quota (--max-stored-bytes)"
        super().__init__("stored bytes", total_bytes, limit)


class MatrixNotFound(ServiceError):
    """No matrix has this id."""

    def __init__(self, matrix_id: str) -> None:
        super().__init__(f"there is no matrix {matrix_id!r}")
        self.field = "id"
        self.value = matrix_id


class MatrixDamaged(ServiceError):
    """The file of this matrix is not as it was stored."""

    def __init__(self, matrix_id: str, reason: str) -> None:
        super().__init__(f"matrix {matrix_id} is damaged: {reason}; delete it and store it again")
        self.field = "id"
        self.value = matrix_id
        self.limit = "a matrix whose file is as it was stored"


class MatrixInUse(ServiceError):
    """A queued or running job needs this matrix."""

    def __init__(self, matrix_id: str, job_ids: Sequence[str]) -> None:
        super().__init__(f"matrix {matrix_id} is needed by {_list_jobs(job_ids)}")
        self.field = "id"
        self.value = matrix_id
        self.limit = "a matrix that no queued or running job names"


class LeaseNotFound(ServiceError):
    """No lease has this id, or it has ended."""

    def __init__(self, lease_id: str) -> None:
        super().__init__(f"there is no lease {lease_id!r}")
        self.field = "lease"
        self.value = lease_id


def _list_jobs(job_ids: Sequence[str]) -> str:
    more = f" and {len(job_ids) - 3} more" if len(job_ids) > 3 else ""
    return f"job {', '.join(job_ids[:3])}{more}"
