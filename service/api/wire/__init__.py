"""The bytes of requests and answers: uvicorn's HTTP protocol, with limits, and bodies uncopied.

In the order of a request:

- `protocol` chooses the class: ours where uvicorn's has the shape that it knows, else uvicorn's.
- `guard` limits what a connection may ask for before the application sees it (`head`). It is
  HTTP/1.0 and 1.1 only, and `chunked` is the only transfer coding. A malformed request is refused
  in its turn, after the answers to those before it (`refusal`, `lingering`, `lost_transport`).
- `connection` and `exchange` give the application two ASGI extensions: to receive a body into its
  own memory, and to wait until an answer has left.
- `bodies` gives places to long bodies in order, `body_source` yields a body's bytes. A body is
  received here: `body_pull` lends the transport to a protocol whose buffer is the route's memory,
  until the body's last byte. `reader` reads .npy files on that way (`media_types`), `digests`
  checks them.
- `sender` answers in pieces of 1 MiB, each after the write buffer is empty, so memory is used again
  only on proof.

Chunked bodies, and other servers, take ASGI's ordinary way. TLS is accepted by
`cli/server/tls_server.py`, which counts connections before they are encrypted. `tests/fuzz/` tries
to break all of this.
"""
