"""The HTTP API: a folder per resource.

A request passes, in this order:

- `wire/`: its bytes become a request within limits.
- `admission/`: an id, its host, its route, its caller, before any byte of a body is taken.
- `products/`, `matrices/`, `jobs/`, `machine/`: the resource answers, by schemas of its own and by
  those that several use (`schemas`, `option_schemas`, `run_schemas`). `parts` finds what the
  service is made of.
- `v2/`: the Open Inference Protocol, whose products go the same way.
- `problems`: the one table from errors to HTTP. Every refusal names field, value and limit.

`openapi` and `header_schemas` describe what FastAPI cannot see: public generators of clients read
the document, so operations have names, and no schema is left open that could be typed.
"""
