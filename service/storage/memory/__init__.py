"""Memory for bodies and products, stored or not.

- `extent` is a range of bytes in memory, and counts who holds it.
- `request_memory` finds memory for what is not stored: in the arena, or in a `mapped_file`.
- `intake` lets memory grow with the bytes that have come, not with those that were announced.
- `leases` are memory that callers on this host map themselves.
"""
