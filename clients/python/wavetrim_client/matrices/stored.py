"""The matrices that a service stores: send, describe, receive and remove them."""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ..errors import ServiceRefused, ServiceUnreachable
from ..records import Matrix
from ..wire.answer import Answer
from ..wire.calls import Calls
from ..wire.request import Progress, Request
from ..wire.transport import UNDO_SECONDS
from .bodies import digest_body
from .downloads import Arrival, download_file, receive_array
from .element_types import find_dtype
from .npy import MEDIA_TYPE
from .operands import check_out
from .sources import (
    MatrixName,
    describe_source,
    name_matrix,
)


class StoredMatrices:
    """The calls about one service's matrices.

    Args:
        calls: The calls to the service.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._network = calls.transport.network

    async def put(
        self, source: Path | ArrayLike, *, digest: bool, on_progress: Progress | None
    ) -> Matrix:
        """Store a matrix; only one is stored even if the request is repeated."""
        body = await self._network.compute(lambda: describe_source(source))
        headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": str(uuid.uuid4())}
        if digest:
            headers["Content-Digest"] = await self._network.compute(lambda: digest_body(body))
        request = Request(
            "POST",
            "/v1/matrices",
            headers=headers,
            body=body,
            on_progress=on_progress,
            repeatable=True,
            undo=self._unstore,
        )
        return Matrix.read(await self._calls.ask(request))

    async def describe(self, matrix_id: str) -> Matrix:
        """Shape, element type and size of a matrix."""
        return Matrix.read(await self._calls.get(f"/v1/matrices/{matrix_id}"))

    async def list(self) -> AsyncIterator[Matrix]:
        """All matrices, newest first, asked for page by page."""
        async for page in self._calls.list_pages("/v1/matrices"):
            for document in page["matrices"]:
                yield Matrix.read(document)

    async def get(self, matrix: MatrixName, out: NDArray[Any] | None) -> NDArray[Any]:
        """A matrix as an array."""
        if out is not None and isinstance(matrix, Matrix):
            check_out(out, matrix.shape, find_dtype(matrix.dtype))
        return await receive_array(self._calls, f"{_find_path(matrix)}/data", out)

    async def download(self, matrix: MatrixName, target: Path, on_progress: Arrival | None) -> int:
        """A matrix as a file, which appears when it is complete and checked."""
        return await download_file(self._calls, f"{_find_path(matrix)}/data", target, on_progress)

    async def delete(self, matrix: MatrixName) -> None:
        """Remove a matrix."""
        await self._calls.remove(_find_path(matrix))

    async def discard(self, matrices: Iterable[MatrixName]) -> None:
        """Remove matrices that are not needed after all; failures are ignored.

        A service that does not answer is not asked again and again: somebody waits for the end.
        """
        calls = self._calls.within(UNDO_SECONDS)
        with contextlib.suppress(ServiceUnreachable):
            for matrix in matrices:
                with contextlib.suppress(ServiceRefused):
                    await calls.remove(_find_path(matrix))

    async def _unstore(self, answer: Answer) -> None:
        """Remove the matrix of an upload that was interrupted after all of it had arrived.

        Each upload has its own key, so status 200 (stored by an earlier try) means the same matrix.
        """
        if answer.status in (200, 201):
            await self.discard([str(json.loads(await answer.read())["id"])])


def _find_path(matrix: MatrixName) -> str:
    return f"/v1/matrices/{name_matrix(matrix)}"
