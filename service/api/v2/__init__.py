"""The Open Inference Protocol (KServe's v2) with Triton's extensions, for one model: `matmul`.

A request passes, in this order:

- `infer` answers it, once it is admitted: it reads the JSON head, and brings the tensors into
  memory, from the body or from the head.
- `request` checks the head, by `schemas`, reads numbers in JSON, and checks that the tensors fit
  together.
- The products are computed as for `POST /v1/matmul`.
- `answer` sends the result from where it lies.

`model` describes server and model, and counts requests.
"""
