"""The matrices that a service stores: send, describe, receive and remove them."""

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from .arrays import check_dimensions, read_array
from .downloads import Arrival, fetch_array, fetch_file
from .errors import ServiceRefused, ServiceUnreachable
from .npy import (
    Progress,
    check_dtype,
    digest_body,
    make_array_body,
    make_file_body,
    tell_progress,
)
from .records import Matrix
from .wire.calls import Calls
from .wire.connection import UNDO_SECONDS, Request

MatrixName = Matrix | str
"""A matrix of the service, or its id."""


class StoredMatrices:
    """The calls about matrices that stay."""

    _calls: Calls

    def put(
        self,
        source: Path | ArrayLike,
        *,
        digest: bool = False,
        on_progress: Progress | None = None,
    ) -> Matrix:
        """Store a matrix: a .npy file (a Path), or an array of any strides; or a stack of matrices.

        Args:
            source: The matrix, or an array of three dimensions, which is a stack.
            digest: Send a Content-Digest. The source is read once more for it, before it is sent.
            on_progress: Receives the bytes sent and the bytes in all.

        Raises:
            ValueError: The array has other dimensions, or an element type without products.
            OSError: The file cannot be read.
        """
        if isinstance(source, Path):
            body = make_file_body(source)
        else:
            array = read_array("array", source)
            check_dimensions("array", array.shape)
            check_dtype(array.dtype)
            body = make_array_body(array)
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        if digest:
            headers["Content-Digest"] = digest_body(body)
        if on_progress is not None:
            body = tell_progress(body, on_progress)
        request = Request(
            "POST",
            "/v1/matrices",
            headers=headers,
            body=body,
            repeatable=True,
            undo=lambda document: self.discard([document["id"]]),
        )
        return Matrix.read(self._calls.ask(request))

    def get(self, matrix: MatrixName, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """A matrix of the service as an array.

        Args:
            matrix: The matrix or its id.
            out: An array of its shape and element type, which is filled and returned.

        Raises:
            ValueError: `matrix` names none, or `out` cannot take it; no element is received then.
            NotFound: The service has no such matrix.
        """
        return fetch_array(self._calls, f"{_find_path(matrix)}/data", out)

    def download(
        self,
        matrix: MatrixName,
        path: str | os.PathLike[str],
        *,
        on_progress: Arrival | None = None,
    ) -> int:
        """Write a matrix to a .npy file, which appears when it is complete and checked.

        After a lost connection the download goes on from where it broke.

        Returns:
            Length of the file in bytes.

        Raises:
            DownloadCorrupted: The bytes are not those that the service announced.
            OSError: The file cannot be written.
        """
        return fetch_file(self._calls, f"{_find_path(matrix)}/data", Path(path), on_progress)

    def matrix(self, matrix_id: str) -> Matrix:
        """Shape, element type and size of a matrix."""
        return Matrix.read(self._calls.get(f"/v1/matrices/{matrix_id}"))

    def matrices(self) -> Iterator[Matrix]:
        """All matrices that the service stores, newest first; asked for page by page."""
        for page in self._calls.list_pages("/v1/matrices"):
            yield from map(Matrix.read, page["matrices"])

    def delete(self, matrix: MatrixName) -> None:
        """Remove a matrix that no queued or running job needs."""
        self._calls.remove(_find_path(matrix))

    def discard(self, matrices: Iterable[MatrixName]) -> None:
        """Remove matrices that are not needed after all; failures are ignored.

        A service that does not answer is not asked again and again: somebody waits for the end.
        """
        calls = self._calls.within(UNDO_SECONDS)
        with contextlib.suppress(ServiceUnreachable):
            for matrix in matrices:
                with contextlib.suppress(ServiceRefused):
                    calls.remove(_find_path(matrix))


def _find_path(matrix: MatrixName) -> str:
    if isinstance(matrix, str):
        return f"/v1/matrices/{matrix}"
    if isinstance(matrix, Matrix):
        return f"/v1/matrices/{matrix.id}"
    name = type(matrix).__name__
    raise ValueError(f"matrix is {name!r}; it must be a Matrix of the service or its id")
