"""The server: the process that `wavetrim serve` becomes.

`listening` opens its addresses (`unix_socket`), `foreground` serves on them until a signal ends it,
with TLS by `tls_server`.
"""
