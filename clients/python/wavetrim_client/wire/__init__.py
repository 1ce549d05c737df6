"""How a request reaches the service, and how its answer comes back.

- `request` is what is sent, `answer` what is received. `calls` repeats a request if `retries` says
  so, and turns a problem into an error.
- `transport` speaks HTTP with `http.client`, over sockets that `sockets` connects to an `address`.
- `interruption` ends a call of another thread.
"""
