"""The Open Inference Protocol over gRPC, on a port of its own (WAVETRIM_GRPC_PORT).

- `server` listens, and stops; `handler` takes each call: the caller's key before any message.
- `calls` answers it, with `service/api/v2/inference.py` and its neighbours as HTTP does.
- `conversion` takes messages of products apart, and makes them; `messages` are those that
  `protocol.proto` has.
"""
