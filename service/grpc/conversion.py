"""Converts messages of products: requests to the head of an HTTP request, answers to responses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wavetrim.service.api.v2.answer import describe_answer
from wavetrim.service.api.v2.inference import Computed
from wavetrim.service.errors import FieldProblem
from wavetrim.service.grpc.messages import find_message
from wavetrim.service.storage.memory.intake import copy_bytes
from wavetrim.service.threads import run_to_end

MOST_TYPED_ELEMENTS: Final = 2**18
"""The most elements of an input that come one by one, not as raw bytes; chosen."""

_CONTENTS: Final = {
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
}
"""The field of elements that come one by one; FP16 and BF16 come only as raw bytes."""

_THREAD_BYTES: Final = 2**20


def make_document(request: Any) -> dict[str, Any]:
    """The head of an HTTP request for the same products, with the result as binary data.

    Raises:
        FieldProblem: The raw contents do not fit the inputs, or there are too many elements.
    """
    inputs = [_describe_input(one) for one in request.inputs]
    raw = request.raw_input_contents
    if raw:
        placed = [one for one in inputs if "shared_memory_region" not in one["parameters"]]
        if len(placed) != len(raw):
            raise FieldProblem("raw_input_contents", len(raw), f"{len(placed)}, one for each input")
        for one, content in zip(placed, raw, strict=True):
            one["parameters"]["binary_data_size"] = len(content)
    outputs = [
        {"name": one.name, "parameters": _read_parameters(one.parameters)}
        for one in request.outputs
    ]
    parameters = {**_read_parameters(request.parameters), "binary_data_output": True}
    return {"id": request.id, "inputs": inputs, "outputs": outputs, "parameters": parameters}


class RawContents:
    """Reads the raw bytes of inputs, one input after the other."""

    def __init__(self, contents: Sequence[bytes]) -> None:
        self._contents = [memoryview(content) for content in contents]

    async def read_into(self, view: memoryview) -> None:
        """Copy the next bytes; there are as many as the request announced."""
        filled = 0
        while filled < len(view):
            piece = self._contents[0][: len(view) - filled]
            target = view[filled : filled + len(piece)]
            if len(piece) > _THREAD_BYTES:
                await run_to_end(copy_bytes, target, piece)
            else:
                copy_bytes(target, piece)
            filled += len(piece)
            self._contents[0] = self._contents[0][len(piece) :]
            if not self._contents[0]:
                del self._contents[0]


def make_response(computed: Computed) -> Any:
    """The response to a request, with the result's bytes unless it is in a region."""
    answer = describe_answer(computed)
    (output,) = answer["outputs"]
    response = find_message("ModelInferResponse")(
        id=answer.get("id", ""),
        model_name=answer["model_name"],
        model_version=answer["model_version"],
        parameters=_write_parameters(answer["parameters"]),
        outputs=[{**output, "parameters": _write_parameters(output.get("parameters", {}))}],
    )
    if computed.placed.request.part is None:
        response.raw_output_contents.append(bytes(computed.placed.result))
    return response


def _describe_input(one: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": one.name,
        "datatype": one.datatype,
        "shape": list(one.shape),
        "parameters": _read_parameters(one.parameters),
    }
    contents = getattr(one.contents, _CONTENTS.get(one.datatype, ""), ())
    if len(contents) > MOST_TYPED_ELEMENTS:
        limit = f"at most {MOST_TYPED_ELEMENTS}; send raw_input_contents"
        raise FieldProblem(f"elements of {one.name}", len(contents), limit)
    if len(contents):
        described["data"] = list(contents)
    return described


def _read_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {name: (one, one.WhichOneof("parameter_choice")) for name, one in parameters.items()}
    return {name: getattr(one, choice) for name, (one, choice) in chosen.items() if choice}


def _write_parameters(values: Mapping[str, int | str]) -> dict[str, Any]:
    kinds = {int: "int64_param", str: "string_param"}
    return {name: {kinds[type(value)]: value} for name, value in values.items()}
