"""The HTTP API: a file per resource, its schemas in files of their own.

A request passes, in this order:

- `wire/`: its bytes become a request within limits.
- `request_log`: an id, a line in the log, a count.
- `host_check`: its Host header must be one that the service may be called by.
- `body_route`: routes that carry matrices (`matmul`, `matrices` and an upload's `upload`, a job's
  result in `jobs`) are plain ASGI. They are answered before FastAPI's routes of the same paths,
  which only describe them.
- `auth`: the key or token, and its scope (GET and HEAD read, all else computes, /metrics is for
  admins), before any byte of a body is taken: by `body_limit`, which takes JSON documents whole, or
  by the body route. Who calls is in the request's ASGI scope then.
- `query_check`: query fields that the call does not know are refused.
- the resource's file: `matmul` (`matmul_body`, `product_answer`; of leased memory `leased_matmul`
  and `leased_schemas`), `matrices` (`matrix_body`, `upload`), `jobs` (`job_schemas`, `events`),
  `plan`, `devices` (`plan_schemas`, `run_schemas`, `device_schemas`, `option_schemas`), `profile`,
  `leases`, `me`, `health`, `metrics`. `schemas` has the rest; `idempotency` reads the header of
  that name; `parts` finds what the service is made of.
- `v2/`: the Open Inference Protocol, whose products go the same way.
- `problems`: the one table from errors to HTTP. Every refusal names field, value and limit.

`openapi` and `header_schemas` describe what FastAPI cannot see: public generators of clients read
the document, so operations have names, and no schema is left open that could be typed.

A product in one call: `matmul` checks key and query, `matmul_body` receives the matrices into the
arena (`request_memory`), the product waits in the lane (`jobs/lane.py`), and the result is sent
from where it lies. No file, no row and no sync. A caller that leaves stops its product.
"""
