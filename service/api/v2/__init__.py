"""The Open Inference Protocol (KServe's v2) with Triton's extensions, for one model: `matmul`.

A request passes, in this order:

- `infer` answers it, once it is admitted.
- `body` reads the JSON head and then the tensors' binary data.
- `request` checks the head, by `schemas`; `datatypes` has the element types, and numbers in JSON.
  `stack` finds which products are asked for.
- `placement` brings the tensors into memory: from the body straight into the arena, or from the
  head.
- `inference` has the products computed, as for `POST /v1/matmul`; `statistics` counts them.
- `answer` sends the result from where it lies, with `compression` if it is asked for.

`model` describes server and model, by `model_schemas`. `errors` adds the protocol's `error` to
problem documents.
"""
