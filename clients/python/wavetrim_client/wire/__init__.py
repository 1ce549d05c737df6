"""How a request reaches the service, and its answer comes back.

- `request` is a call and its answer; `calls` sends it with its repetitions, as `retries` decides,
  and says what the answer means.
- `transport` speaks HTTP/1.1 to an `address`, over a `stream` of bytes; `answer` receives.
- `network` waits, in a thread or in an event loop: all that differs between the two clients.
"""
