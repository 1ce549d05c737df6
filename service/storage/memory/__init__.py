"""Memory for what comes, before anybody knows whether it will be kept.

- `room` gives a place in the arena, or a mapped file where that is full.
- `intake` lets it grow with the bytes that have come, not with those that were announced.
- `leases` are memory that callers on this host map themselves.
- `named_regions` are theirs that they name: the shared memory of the Open Inference Protocol.
"""
