"""What the parsers must do with any bytes; a coverage-guided fuzzer and the corpus's test call it.

Each target takes bytes and raises where a parser does what it may not: an error of another kind
than it names, a result that another reader of the same format does not have, or one that depends on
how the bytes were cut.
"""

import asyncio
import io
import json
import warnings
from math import prod

import numpy as np
from starlette.requests import Request

from tests.fuzz.fault import Fault
from wavetrim.native.element_types import find_dtype
from wavetrim.scheduler.engine.messages import (
    MessageError,
    RunRequest,
    decode_message,
    encode_message,
)
from wavetrim.service.api.checks import check_host, check_idempotency
from wavetrim.service.api.fields import read_json, read_model, read_query
from wavetrim.service.api.matrices.download import parse_range
from wavetrim.service.api.matrices.matrices import StoreQuery
from wavetrim.service.api.problems import REFUSALS, describe_error
from wavetrim.service.api.products.leased_matmul import LeasedProduct
from wavetrim.service.api.products.matmul import NAMES, MatmulQuery
from wavetrim.service.api.products.plan import PlanQuery
from wavetrim.service.api.v2.request import read_request
from wavetrim.service.api.wire.content import format_digest, parse_digest
from wavetrim.service.api.wire.reader import BodyReader
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.settings import Settings
from wavetrim.service.storage.errors import NpyError
from wavetrim.service.storage.matrices.npy import (
    MAX_HEADER_BYTES,
    Layout,
    parse_header,
)

_SIZE_BYTES = 1000
_SETTINGS = Settings(_env_file=None)
_MARK = "[!-~]*"
"""A mark of printable characters, as all are."""

_LOOP = asyncio.new_event_loop()


def check_npy(data):
    """What is taken for a header NumPy takes for the same one; a part of it asks for more.

    Behind a byte below 6 it is the header's text, whose version and length are put before it.
    """
    if data and data[0] < 6:
        version, text = data[0] % 3 + 1, data[1:] + b"\n" * (data[0] // 3)
        length = len(text).to_bytes(2 if version == 1 else 4, "little")
        data = b"\x93NUMPY" + bytes([version, 0]) + length + text
    try:
        header = parse_header(data)
    except NpyError as error:
        describe_error(error)
        return
    if header is None:
        if len(data) >= 12 + MAX_HEADER_BYTES:
            raise Fault("the longest header asks for more")
        return
    if (found := _read_as_numpy(data)) != header:
        raise Fault(f"{header}, and NumPy reads {found}")
    if parse_header(data[: header.offset_bytes - 1]) is not None:
        raise Fault(f"{header} is there before its last byte")
    shown = header.format_header()
    again = parse_header(shown)
    if again is None or (str(again), again.file_bytes - len(shown)) != (
        str(header),
        header.data_bytes,
    ):
        raise Fault(f"{header} is written as {shown!r}")


def _read_as_numpy(data):
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):  # 3.0 differs in what names of fields may be
        read = np.lib.format.read_array_header_2_0
    with warnings.catch_warnings(action="ignore"):  # of headers that Python 2 has written
        shape, fortran_order, dtype = read(stream)
    *stack, rows, columns = shape
    return Layout(rows, columns, dtype.name, fortran_order, stream.tell(), *stack)


def check_body(data):
    """The matrices of a body lie in it, one behind the other, up to its end."""
    names = NAMES[: 2 + len(data) % 2]
    try:
        files = _LOOP.run_until_complete(_read_files(data, names))
    except REFUSALS as error:
        describe_error(error)
        return
    end = 0
    for header, elements in files:
        begin, end = end + header.offset_bytes, end + header.file_bytes
        if data[begin:end] != elements:
            raise Fault(f"{header} has not the bytes from {begin} to {end}")
    if end != len(data):
        raise Fault(f"{files} end at {end} of {len(data)}")


async def _read_files(data, names):
    """The headers and elements of a body that comes in chunks."""
    length = 1 + len(data) % 97
    chunks = [data[begin : begin + length] for begin in range(0, len(data), length)]

    async def receive():
        body = chunks.pop(0) if chunks else b""
        return {"type": "http.request", "body": body, "more_body": bool(chunks)}

    body = BodyReader(Request({"type": "http", "headers": []}, receive), media_types=())
    files = []
    for name in names:
        header = await body.read_header(name)
        elements = bytearray(min(header.data_bytes, len(data) + 1))
        await body.read_into(memoryview(elements))
        files.append((header, bytes(elements)))
    await body.finish()
    return files


def check_head(data):
    """The result of a request has the bytes of its shape."""
    try:
        request = read_request(data)
    except REFUSALS as error:
        describe_error(error)
        return
    result = request.result
    if result.data_bytes != prod(result.shape) * find_dtype(result.dtype).itemsize:
        raise Fault(f"{request} has a result of {result.data_bytes} bytes")


def check_fields(data):
    """The text of a header field, a query or a document, behind a byte that says of which."""
    if not data:
        return
    check = _FIELDS[data[0] % len(_FIELDS)]
    try:
        check(data[1:])
    except REFUSALS as error:
        answer = describe_error(error)
        if not 400 <= answer.status_code < 500 or len(answer.body) > 20_000:
            raise Fault(f"{answer.status_code}: {bytes(answer.body[:500])!r}") from error


def _check_range(data):
    part = parse_range(data.decode("latin-1"), _SIZE_BYTES)
    if part is not None and not 0 <= part[0] < part[1] <= _SIZE_BYTES:
        raise Fault(f"{data!r} is {part} of {_SIZE_BYTES}")


def _check_digest(data):
    digest = parse_digest(data.decode("latin-1"))
    if digest is not None and parse_digest(format_digest(digest)) != digest:
        raise Fault(f"{data!r} is {digest!r}")


def _check_cursor(data):
    mark = decode_mark(data.decode("latin-1"), _MARK)[0]
    if decode_mark(encode_mark(mark), _MARK)[0] != mark:
        raise Fault(f"{data!r} is {mark}")


def _check_host(data):
    hosts = [part.decode("latin-1") for part in data.split(b"\n")]
    check_host(hosts, _SETTINGS, is_needed=True)


_FIELDS = (
    _check_range,
    _check_digest,
    _check_cursor,
    lambda data: check_idempotency(data.decode("latin-1")),
    _check_host,
    lambda data: read_query(MatmulQuery, data).options,
    lambda data: read_query(PlanQuery, data).options,
    lambda data: read_query(StoreQuery, data),
    lambda data: read_model(LeasedProduct, data).options,
)


def check_json(data):
    """What is taken Python's reader takes for the same, and finds no name twice in it."""

    def read_object(pairs):
        if len(dict(pairs)) < len(pairs):
            raise Fault("a name is there twice")
        return dict(pairs)

    try:
        document = read_json(data)
    except REFUSALS as error:
        describe_error(error)
        return
    if repr(document) != repr(json.loads(data, object_pairs_hook=read_object)):
        raise Fault(f"{data!r} is read as {document}")


def check_message(data):
    """A packet between service and engine; a run that can be read is told as it was."""
    try:
        message = decode_message(data)
        request = RunRequest.from_message(message)
    except (MessageError, KeyError, TypeError, ValueError):
        return
    if "inf" in repr(request):  # as 1e400 is read; JSON has no word to tell it by
        return
    again = RunRequest.from_message(decode_message(encode_message(request.as_message())))
    if again != request:
        raise Fault(f"{request} comes back as {again}")


TARGETS = {
    "npy": check_npy,
    "body": check_body,
    "head": check_head,
    "fields": check_fields,
    "json": check_json,
    "message": check_message,
}
"""By their names, which are those of their corpora's folders."""
