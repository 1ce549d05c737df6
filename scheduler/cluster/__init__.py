"""Engines on other hosts, by Ray: one actor a node, which has all of the node's devices.

In the order in which a product passes: `__main__` is the process that speaks with Ray, started by
the service as it starts the local engine, over the same messages. `membership` sees nodes join and
leave, and measures the network to each. `product` sends a product's rows to a node in blocks,
after B, and collects the result. `node_operands` says how they are cut, and which operands a node
keeps. `node` is the actor. `start` is `wavetrim node`.

- Only this folder imports Ray, and only in the processes that need it.
- B crosses the network once to a node, a part at a time, and stays in the node's memory: a
  stored matrix while there is room, any other one while its product runs. Rows of A follow in
  blocks; rows of C come back while later ones are computed.
- No object is larger than an eighth of Ray's store: a larger one may become a file on disk.
- Ray repeats nothing (`max_task_retries=0`). The service has a lost node's products computed
  elsewhere.
- Each block has a deadline. A node that misses one is given up: its actor is killed, and what it
  sends later is not read.
- The service's own devices are never reached through Ray, which takes a millisecond a call.
"""
