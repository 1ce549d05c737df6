"""The server: the process that `wavetrim serve` becomes.

`listening` opens its addresses, `foreground` serves on them until a signal ends it, with TLS by
`tls_server`.
"""
