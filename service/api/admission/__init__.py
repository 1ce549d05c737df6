"""Admission: the checks that every request passes before its route receives a byte of its body.

In this order:

- `request_log`: an id, a line in the log, a count.
- `host_check`: the Host header must be a name that the service may be called by.
- `body_route`: routes that carry matrices are plain ASGI. They are answered before FastAPI's routes
  of the same paths, which only describe them.
- `auth`: the key or token, and its scope (GET and HEAD read, all else computes, /metrics is for
  admins). It is called by the body route, or by `body_limit`, which receives JSON documents. From
  then on the tenant is in the request's ASGI scope.
- `json_route`: a JSON document is read as every one is (`json_document`).
- `head_request`: all other routes answer HEAD as GET.
- `query_check`: unknown query fields are refused.

`idempotency` reads the Idempotency-Key header.
"""
