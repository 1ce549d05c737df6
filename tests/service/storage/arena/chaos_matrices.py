"""Products whose every element is known without computing them, and matrices that a client keeps.

Each matrix is a column times a row of small integers, so A·B is one, too: sums stay below 2^24 and
are exact in any order, in float32 as well. The integers are drawn from the request's number: a byte
of another request's shows as a wrong element.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.server import decode_npy, encode_npy

Array = NDArray[Any]
Ask = Callable[[str, str, bytes], tuple[int, bytes]]

MOST_KEPT: Final = 4
SIZES: Final = (20, 90, 180, 256, 400, 512)
"""Rows and columns: from extents of a page to slabs that one extent fills."""

PATIENCE_SECONDS: Final = 30.0


LARGEST: Final = 512
"""Most rows, columns and depth: 2 MiB in float64."""

_LARGE: Final = 256
_SMALLEST: Final = 2


@dataclass(frozen=True, slots=True)
class KnownProduct:
    """Operands and what their product is.

    Attributes:
        parts: The .npy files of A, B and, where beta is not 0, C.
        answer: The .npy file of the product.
        query: The query that asks for it.
    """

    parts: tuple[bytes, ...]
    answer: bytes
    query: str

    @property
    def body(self) -> bytes:
        """All files, one after the other."""
        return b"".join(self.parts)


def make_product(random: np.random.Generator) -> KnownProduct:
    """A product of a random shape: most are small, some have matrices of 2 MiB."""
    rows, depth, columns = draw_shape(random)
    dtype = "float32" if random.random() < 0.5 else "float64"
    left, right = draw_factors(random, rows, dtype), draw_factors(random, columns, dtype)
    along, down = random.integers(-3, 4, (2, depth)).astype(dtype)
    a, b = np.outer(left, along), np.outer(down, right)
    answer = np.outer(left * (along @ down), right)
    parts, query = [encode_npy(a), encode_npy(b)], ""
    if random.random() < 0.3:
        c = np.outer(draw_factors(random, rows, dtype), draw_factors(random, columns, dtype))
        answer = 2 * answer - c
        parts.append(encode_npy(c))
        query = "alpha=2&beta=-1"
    return KnownProduct(tuple(parts), encode_npy(answer), query)


def draw_shape(random: np.random.Generator) -> tuple[int, int, int]:
    """Rows, depth and columns: each of any magnitude, or all of them large."""
    smallest = _LARGE if random.random() < 0.1 else _SMALLEST
    sizes = np.exp(random.uniform(np.log(smallest), np.log(LARGEST + 1), 3))
    rows, depth, columns = (int(size) for size in sizes)
    return rows, depth, columns


def draw_factors(random: np.random.Generator, count: int, dtype: str) -> Array:
    """Integers from 1 to 9: no element of a product is zero by chance alone."""
    return random.integers(1, 10, count).astype(dtype)


@dataclass(frozen=True, slots=True)
class Square:
    """A matrix of the client's.

    Attributes:
        content: Its .npy file.
        array: Its elements.
        squared: Those of its product with itself.
    """

    content: bytes
    array: Array
    squared: Array


def make_square(random: np.random.Generator) -> Square:
    """A matrix of a random size."""
    size = int(random.choice(SIZES))
    dtype = "float32" if random.random() < 0.5 else "float64"
    down, along = draw_factors(random, size, dtype), random.integers(-3, 4, size).astype(dtype)
    array = np.outer(down, along)
    return Square(encode_npy(array), array, np.outer(down * (along @ down), along))


class KeptSquares:
    """What one client keeps.

    Args:
        ask: Sends a request: method, path and body; returns the answer's status and body.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._kept: dict[str, Square] = {}

    def store(self, random: np.random.Generator) -> None:
        """Keep one more, and one less where there are many."""
        if len(self._kept) == MOST_KEPT:
            self._delete(self._choose(random))
        square = make_square(random)
        view = self._expect(HTTPStatus.CREATED, "POST", "/v1/matrices", square.content)
        self._kept[json.loads(view)["id"]] = square

    def store_some(self, random: np.random.Generator) -> None:
        """Keep all but one of what is kept at most."""
        while len(self._kept) < MOST_KEPT - 1:
            self.store(random)

    def fetch(self, random: np.random.Generator) -> None:
        """Fetch one, from wherever it is by now."""
        if not self._kept:
            self.store(random)
        matrix_id = self._choose(random)
        self._check(f"/v1/matrices/{matrix_id}/data", self._kept[matrix_id].array)

    def multiply(self, random: np.random.Generator) -> None:
        """Have a job square one, fetch the result and delete it."""
        if not self._kept:
            self.store(random)
        matrix_id = self._choose(random)
        wanted = json.dumps({"a": matrix_id, "b": matrix_id}).encode()
        job_id = json.loads(self._expect(HTTPStatus.ACCEPTED, "POST", "/v1/jobs", wanted))["id"]
        job = next(job for job in self._poll(job_id) if job["finished_at"])
        assert job["state"] == "succeeded", job
        self._check(f"/v1/jobs/{job_id}/result", self._kept[matrix_id].squared)
        self._expect(HTTPStatus.NO_CONTENT, "DELETE", f"/v1/matrices/{job['result']}")

    def delete_all(self) -> None:
        """Keep nothing."""
        for matrix_id in tuple(self._kept):
            self._delete(matrix_id)

    def _choose(self, random: np.random.Generator) -> str:
        return list(self._kept)[int(random.integers(len(self._kept)))]

    def _delete(self, matrix_id: str) -> None:
        del self._kept[matrix_id]
        self._expect(HTTPStatus.NO_CONTENT, "DELETE", f"/v1/matrices/{matrix_id}")

    def _poll(self, job_id: str) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            yield json.loads(self._expect(HTTPStatus.OK, "GET", f"/v1/jobs/{job_id}"))
            time.sleep(0.01)
        raise AssertionError(f"job {job_id} does not end")

    def _check(self, path: str, wanted: Array) -> None:
        found = decode_npy(self._expect(HTTPStatus.OK, "GET", path))
        assert found.dtype == wanted.dtype
        differing = np.flatnonzero(found != wanted)
        assert not differing.size, f"{path}: {differing.size} elements, from {differing[0]} on"

    def _expect(self, wanted: HTTPStatus, method: str, path: str, content: bytes = b"") -> bytes:
        status, body = self._ask(method, path, content)
        assert status == wanted, (method, path, status, body[:500])
        return body
