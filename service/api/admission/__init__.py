"""What every request passes before its route takes a byte of its body.

In this order:

- `request_log`: an id, a line in the log, a count.
- `host_check`: its Host header must be one that the service may be called by.
- `body_route`: routes that carry matrices are plain ASGI. They are answered before FastAPI's routes
  of the same paths, which only describe them.
- `auth`: the key or token, and its scope (GET and HEAD read, all else computes, /metrics is for
  admins), asked for by the body route, or by `body_limit`, which takes JSON documents whole. Who
  calls is in the request's ASGI scope then.
- `query_check`: query fields that the call does not know are refused.

`idempotency` reads the header of that name.
"""
