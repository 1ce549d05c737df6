"""The service beside its peers and its floor, over real sockets: `python -m benchmarks.http`.

`message`, `connection` and `load` are the clients; `floor` and `peer_*` servers to compare with;
`contenders` starts all of them, `contest` lets them take turns, and `rows` is what is written.
"""
