"""The service against its peers, over real sockets: `python -m benchmarks.http`.

`servers` starts the service and the `peers`; a `client` on bare sockets sends products and checks
the answers. The `baselines` take turns; `rows` are the results.
"""
