"""The answer to a request for products over HTTP: a JSON head, and the result's bytes after it."""

from typing import Any, Final

import numpy as np
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from wavetrim.native.element_types import find_dtype
from wavetrim.service.api.products.product_answer import describe_product
from wavetrim.service.api.v2.body import HEAD_LENGTH
from wavetrim.service.api.v2.compression import compress
from wavetrim.service.api.v2.datatypes import NAMES, list_elements
from wavetrim.service.api.v2.inference import Computed
from wavetrim.service.api.v2.schemas import MODEL_NAME, MODEL_VERSION
from wavetrim.service.api.wire.body_pull import IDLE_SECONDS
from wavetrim.service.api.wire.sender import RawHeaders, send_chunks, send_views
from wavetrim.service.threads import run_to_end

_THREAD_ELEMENTS: Final = 2**12
"""Most elements whose JSON is not worth a thread; chosen."""


async def make_views(computed: Computed) -> list[memoryview]:
    """The answer's bytes: the head, and the result if it is sent as binary data.

    Raises:
        FieldProblem: The result was asked for as JSON, which has no word for one of its numbers.
    """
    request = computed.placed.request
    head = _describe_answer(computed)
    (output,) = head["outputs"]
    result = computed.placed.result
    if request.binary:
        output["parameters"] = {"binary_data_size": len(result)}
        return [memoryview(to_json(head)), result]
    dtype = request.stack.problem.dtype
    if len(result) > _THREAD_ELEMENTS * 4:
        output["data"] = await run_to_end(_read_elements, result, dtype)
        return [memoryview(await run_to_end(to_json, head))]
    output["data"] = _read_elements(result, dtype)
    return [memoryview(to_json(head))]


def _describe_answer(computed: Computed) -> dict[str, Any]:
    """The answer without elements: model, id, how it was computed, and the output."""
    request = computed.placed.request
    output: dict[str, Any] = {
        "name": "C",
        "datatype": NAMES[request.stack.problem.dtype],
        "shape": list(request.stack.shape),
    }
    named = {"id": request.id} if request.id else {}
    return {
        **named,
        "model_name": MODEL_NAME,
        "model_version": MODEL_VERSION,
        "parameters": computed.parameters,
        "outputs": [output],
    }


async def send_answer(
    scope: Scope,
    receive: Receive,
    send: Send,
    computed: Computed,
    views: list[memoryview],
    *,
    coding: str | None,
) -> None:
    """Send an answer. However it ends, nobody reads the result's memory afterwards."""
    headers: RawHeaders = describe_product(computed.message)
    is_json = len(views) == 1
    headers.append(
        (b"content-type", b"application/json" if is_json else b"application/octet-stream")
    )
    if not is_json:
        headers.append((HEAD_LENGTH.lower().encode(), b"%d" % len(views[0])))
    if coding is None:
        await send_views(
            scope, send, status=200, headers=headers, views=views, idle_seconds=IDLE_SECONDS
        )
        return
    headers.append((b"content-encoding", coding.encode()))
    await send_chunks(
        scope, receive, send, status=200, headers=headers, chunks=compress(coding, views),
        total_bytes=None, idle_seconds=IDLE_SECONDS,
    )  # fmt: skip


def _read_elements(result: memoryview, dtype: str) -> list[float]:
    return list_elements(np.frombuffer(result, find_dtype(dtype)))
