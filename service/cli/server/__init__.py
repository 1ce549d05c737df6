"""The process that `wavetrim serve` becomes.

`listening` opens its addresses, `foreground` serves on them until a signal ends it, with TLS by
`tls_server`. `allocator` has the C library keep small freed memory.
"""
