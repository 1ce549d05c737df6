"""Engines on other hosts, by Ray: one actor a node, which has all of the node's devices.

In the order in which a product passes: `__main__` is the process that speaks with Ray, started by
the service as it starts the local engine, over the same messages; `membership` sees nodes join and
leave; `product` sends a product's blocks to a node and collects its rows; `blocks` cuts them;
`residents` are the operands that a node keeps; `node` is the actor; `network` measures the way
there; `start` is `wavetrim node`.

- Only this folder imports Ray, and only those processes do that need it.
- B crosses the network once to each node, a part at a time, and stays in the node's memory: a
  stored matrix while there is room, any other one while its product runs. Rows of A follow in
  blocks; rows of C come back while later ones are computed.
- No object is larger than an eighth of Ray's store: a larger one may become a file on disk.
- Nothing is tried again by Ray (`max_task_retries=0`). The rows that have come back are the
  record of what is done; the service has the others computed elsewhere.
- Each block has a deadline. A node that misses one is given up: its actor is killed, and nothing
  of what it sends later is read.
- The service's own devices are never reached through Ray, which takes a millisecond a call.
"""
