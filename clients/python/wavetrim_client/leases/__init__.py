"""Memory that a caller shares with a service on the same host: no matrix is sent.

`lease` is such memory, `leased_memory` finds arrays in it, `leased_products` multiplies there.
"""
