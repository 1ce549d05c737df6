"""The HTTP API: a folder for each kind of resource.

A request passes, in this order:

- `wire/`: bytes become a request within limits, and one reader receives every body.
- `calls`: its id, the log, the `checks`; then its route is called with a `Call`, whose fields are
  read by `fields`. FastAPI only describes the routes, and answers where there is none.
- `products/`, `matrices/`, `jobs/`, `machine/`: the resource answers, with its own schemas and
  those that several share (`schemas`).
- `v2/`: the Open Inference Protocol, whose products go the same way.
- `problems`: errors become answers, by its table, from which the OpenAPI document has its words
  for each status, too. Every refusal names field, value and limit.

`openapi` describes what FastAPI cannot see.
Generators of clients read the document, so operations have names, and every schema that can be
typed is.
"""
