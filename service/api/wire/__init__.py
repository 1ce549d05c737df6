"""The bytes of requests and answers: uvicorn's HTTP protocol with limits, and uncopied bodies.

In the order of a request:

- `guard` limits what a connection may send before the application sees it (`head`). Only HTTP/1.0
  and 1.1 are spoken, and `chunked` is the only transfer coding. A malformed request is refused in
  its turn, after the answers to earlier ones (`refusal`, `lingering`, `lost_transport`).
- `connection` and `exchange` give the application two ASGI extensions: to receive a body into its
  own memory, and to wait until an answer has left.
- `bodies` limits how many long bodies are received at once, `body_source` yields a body's bytes.
  For that `body_pull` takes the transport until the body's last byte, with the route's memory as
  its buffer. `inflated_source` inflates a compressed one. `reader` reads .npy files from a body,
  `digests` checks them.
- `sender` answers in pieces of 1 MiB, each after the write buffer is empty, so that memory is
  reused only when nobody reads it.

Chunked bodies, and other servers, use plain ASGI. uvicorn's protocol is no public interface, so its
minor version is fixed. TLS is accepted by `server/tls_server.py`, which counts connections before
they are encrypted. `tests/fuzz/` tries to break all of this.
"""
