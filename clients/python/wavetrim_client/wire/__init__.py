"""How a request reaches the service, and how its answer comes back.

- `request` is what is sent, `answer` what is received. `calls` repeats a request if `retries` says
  so, and turns a problem into an error.
- `transport` speaks HTTP/1.1 to an `address`, over a `stream` of bytes.
- `network` waits, in a thread or in an event loop. Only this differs between the two clients.
"""
