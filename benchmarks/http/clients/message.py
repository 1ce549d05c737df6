"""Requests as bytes, and the heads of answers: HTTP as the load generator speaks it."""

import io
import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.common.operands import Matrix

HEAD_END: Final = b"\r\n\r\n"
NPY_HEADER_BYTES: Final = 128
"""Bytes of a matrix's .npy header, as NumPy writes it."""

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
CLOSES: Final = b"onnection: close"

NPY: Final = "application/x-npy"
TRITON_TYPES: Final = {"float32": "FP32", "float64": "FP64"}


class AnswerMalformed(Exception):
    """An answer is not HTTP as it was asked for; the message quotes it."""


class AnswerHead(NamedTuple):
    """The head of an answer.

    Attributes:
        status: Its status code.
        head_bytes: Its length, the empty line included.
        body_bytes: Length of the body.
        closes: Whether the server closes the connection afterwards.
    """

    status: int
    head_bytes: int
    body_bytes: int
    closes: bool

    @property
    def total_bytes(self) -> int:
        """Length of the whole answer."""
        return self.head_bytes + self.body_bytes


def read_head(buffer: bytearray, received: int) -> AnswerHead | None:
    """Read the head of an answer that is arriving into a buffer; None while it is not complete.

    Raises:
        AnswerMalformed: It is no HTTP, or does not say how long its body is.
    """
    end = buffer.find(HEAD_END, 0, received)
    if end < 0:
        return None
    length = _LENGTH.search(buffer, 0, end + 2)
    if length is None or not buffer[9:12].isdigit():
        raise AnswerMalformed(f"no status or content-length: {bytes(buffer[: min(end, 500)])!r}")
    closes = buffer.find(CLOSES, 0, end) >= 0
    return AnswerHead(int(buffer[9:12]), end + len(HEAD_END), int(length[1]), closes)


def make_request(
    path: str, parts: Sequence[bytes | memoryview], *, kind: str = NPY, method: str = "POST",
    fields: Sequence[str] = (),
) -> bytearray:  # fmt: skip
    """A whole request in one piece of memory.

    Args:
        path: Path and query.
        parts: The body's parts, in order.
        kind: Its content type.
        method: The method.
        fields: Further header lines.
    """
    length = sum(map(len, parts))
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-type: {kind}", *fields]
    head = "\r\n".join([*lines, f"content-length: {length}", "", ""]).encode()
    request = bytearray(len(head) + length)
    place = 0
    for part in (head, *parts):
        request[place : place + len(part)] = part
        place += len(part)
    return request


def view_bytes(matrix: Matrix) -> memoryview:
    """A matrix's own memory; it is row-major without gaps."""
    return memoryview(matrix.data).cast("B")


def encode_npy(matrix: Matrix) -> list[bytes | memoryview]:
    """A .npy file as `numpy.save` writes it: header, and the matrix's own memory."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(matrix))
    return [header.getvalue(), view_bytes(matrix)]


def request_npy(path: str, a: Matrix, b: Matrix) -> bytearray:
    """A product: two .npy files, one after the other."""
    return make_request(path, [*encode_npy(a), *encode_npy(b)])


def request_triton(path: str, a: Matrix, b: Matrix) -> bytearray:
    """A product in KServe's protocol with binary tensors, as tritonclient writes it."""

    def describe(name: str, matrix: Matrix) -> dict[str, Any]:
        return {
            "name": name,
            "shape": list(matrix.shape),
            "datatype": TRITON_TYPES[matrix.dtype.name],
            "parameters": {"binary_data_size": matrix.nbytes},
        }

    asked = {
        "inputs": [describe("A", a), describe("B", b)],
        "outputs": [{"name": "C", "parameters": {"binary_data": True}}],
    }
    head = json.dumps(asked, separators=(",", ":")).encode()
    parts: list[bytes | memoryview] = [head, view_bytes(a), view_bytes(b)]
    fields = [f"inference-header-content-length: {len(head)}"]
    return make_request(path, parts, kind="application/octet-stream", fields=fields)
