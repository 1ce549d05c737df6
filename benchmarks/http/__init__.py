"""The service against its peers, over real sockets: `python -m benchmarks.http`.

`servers` starts the service and the `peers`; a `client` on bare sockets sends each `product` and
checks the answer. The `baselines` take turns. `tables` shows the `rows`.
"""
