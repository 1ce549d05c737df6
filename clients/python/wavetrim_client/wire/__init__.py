"""How a request reaches the service, and how its answer comes back.

- `calls` sends requests of several threads, repeats one if nothing can be done twice by it, and
  turns a problem into an error.
- `connection` sends one request after the other with `http.client`, over a socket that `address`
  connects.
- `interruption` ends a call of another thread.
"""
