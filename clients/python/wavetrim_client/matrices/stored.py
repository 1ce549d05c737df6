"""The matrices that a service stores: send, describe, receive and remove them."""

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..errors import ServiceRefused, ServiceUnreachable
from ..opening import Opened
from ..records import Matrix
from ..wire.answer import Answer
from ..wire.request import Progress, Request
from ..wire.transport import UNDO_SECONDS
from .bodies import digest_body
from .downloads import Arrival, download_file, receive_array
from .element_types import find_dtype
from .npy import MEDIA_TYPE
from .operands import check_out
from .sources import MatrixName, describe_source, name_matrix


class StoredMatrices(Opened):
    """The calls about matrices that stay."""

    def put(
        self,
        source: Path | ArrayLike,
        *,
        digest: bool = False,
        on_progress: Progress | None = None,
    ) -> Matrix:
        """Store a matrix: a .npy file (a Path), or a two-dimensional array of any strides.

        Args:
            source: The matrix.
            digest: Send a Content-Digest. The source is read once more for it, before it is sent.
            on_progress: Receives the bytes sent and the bytes in all.

        Raises:
            ValueError: The array is not two-dimensional, or has an element type without products.
            OSError: The file cannot be read.
        """
        body = describe_source(source)
        headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": str(uuid.uuid4())}
        if digest:
            headers["Content-Digest"] = digest_body(body)
        request = Request(
            "POST",
            "/v1/matrices",
            headers=headers,
            body=body,
            on_progress=on_progress,
            repeatable=True,
            undo=self._unstore,
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
        if out is not None and isinstance(matrix, Matrix):
            check_out(out, matrix.shape, find_dtype(matrix.dtype))
        return receive_array(self._calls, f"{_find_path(matrix)}/data", out)

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
        return download_file(self._calls, f"{_find_path(matrix)}/data", Path(path), on_progress)

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

    def _discard(self, matrices: Iterable[MatrixName]) -> None:
        """Remove matrices that are not needed after all; failures are ignored.

        A service that does not answer is not asked again and again: somebody waits for the end.
        """
        calls = self._calls.within(UNDO_SECONDS)
        with contextlib.suppress(ServiceUnreachable):
            for matrix in matrices:
                with contextlib.suppress(ServiceRefused):
                    calls.remove(_find_path(matrix))

    def _unstore(self, answer: Answer) -> None:
        """Remove the matrix of an upload that was interrupted after all of it had arrived.

        Each upload has its own key, so status 200 (stored by an earlier try) means the same matrix.
        """
        if answer.status in (200, 201):
            self._discard([str(json.loads(answer.read())["id"])])


def _find_path(matrix: MatrixName) -> str:
    return f"/v1/matrices/{name_matrix(matrix)}"
