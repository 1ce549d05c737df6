"""Memory for bodies and products, stored or not.

- `room` gives a place in the arena, or a mapped file if that is full.
- `intake` lets memory grow with the bytes that have come, not with those that were announced.
- `leases` are memory that callers on this host map themselves.
"""
