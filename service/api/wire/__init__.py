"""The bytes of requests and answers: uvicorn's HTTP protocol with limits, and uncopied bodies.

In the order of a request:

- `connection` limits what may be sent before the application sees it. Only HTTP/1.0 and 1.1 are
  spoken, and `chunked` is the only transfer coding. A malformed request is refused in its turn,
  after the answers to earlier ones (`refusal`, `lingering`).
- `exchange`, a request and its answer, lets the application do what ASGI cannot: receive a body
  into its own memory, and wait until an answer has left.
- `reader` receives every body: .npy files, tensors and JSON, small and large. The bytes of a long
  one of known length come through `body_pull`, which takes the transport until the body's last
  byte, with the route's memory as its buffer; those of a short one, or of one in chunks, as ASGI
  has them. `content` inflates a compressed one, and reads digests.
- `sender` answers in pieces of 1 MiB, each after the write buffer is empty, so that memory is
  reused only when nobody reads it.

uvicorn's protocol is no public interface, so its minor version is fixed. TLS is accepted by
`server/tls_server.py`, which counts connections before they are encrypted. `tests/fuzz/` tries to
break all of this.
"""
