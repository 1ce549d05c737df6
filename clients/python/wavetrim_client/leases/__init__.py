"""Memory that a caller shares with a service on the same host, so that no matrix is sent.

`lease` gets such memory, `leased_memory` places arrays in it, `leased_products` multiplies there.
"""
