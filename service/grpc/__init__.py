"""The Open Inference Protocol over gRPC, on a port of its own (WAVETRIM_GRPC_PORT).

- `server` listens; `handler` takes each call and checks the caller's key before any message.
  A stream's key is checked for each, and each must come in time. `places` bounds how many come at
  once; `outcome` ends a call: statuses, metrics, the log.
- `calls` answers it, through `service/api/v2/`, as HTTP does.
- `conversion` reads and makes messages of products; `messages` has the classes of all messages in
  `protocol.proto`.
"""
