"""Admission: what every request passes before its route receives a byte of its body.

- `request_log`: an id, a line in the log, a count.
- `checks`: the list of checks, in order, and who answers then: a `body_route`, which receives or
  sends its bytes itself, or FastAPI with a JSON body, received within limits (`body_limit`).
- `auth`: the key or token, and its scope (GET and HEAD read, all else computes, /metrics is for
  admins).

A route's function takes a `call`: the request, with its tenant and the parts of the service.
`idempotency` reads the Idempotency-Key header.
"""
