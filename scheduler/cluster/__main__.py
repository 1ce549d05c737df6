"""The process that speaks with Ray, as the local engine's process speaks with the GPU.

The service starts it and sends it the same messages. It reports nodes that join ("node") and leave
("node_gone"); a run names the node that is to compute it. It ends when a socket closes, and Ray
ends the nodes' engines with it.
"""

import argparse
import logging
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import ray

from wavetrim.scheduler.cluster.membership import Membership
from wavetrim.scheduler.cluster.product import NodeProduct
from wavetrim.scheduler.engine.answer import describe_failure
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.conversation import Channel, Conversation
from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.engine.operands import open_product
from wavetrim.scheduler.engine.process import prepare_process
from wavetrim.scheduler.errors import NodeLost

logger = logging.getLogger("wavetrim.scheduler.cluster")

_MOST_NODES: Final = 256
"""Most products that are with nodes at a time. Each has a thread that mostly waits. Chosen."""


class Head:
    """Takes runs from the service and has each computed by its node."""

    def __init__(self, service: Conversation, *, stall_seconds: float) -> None:
        self._service, self._stall_seconds = service, stall_seconds
        self._membership = Membership(service.send)
        self._threads = ThreadPoolExecutor(_MOST_NODES, thread_name_prefix="node-run")

    def serve(self) -> None:
        """Send `ready`, then work until the service sends `shutdown`."""
        self._service.send({"type": "ready", "pid": os.getpid()})
        threading.Thread(target=self._membership.watch, name="membership", daemon=True).start()
        self._service.serve(self._take)

    def _take(self, message: Message) -> None:
        match message["type"]:
            case "run":
                self._threads.submit(self._run, message)
            case "end":
                self._membership.end(message["node"], message["reason"])

    def _run(self, message: Message) -> None:
        node_id = message["node"]
        try:
            request = RunRequest.from_message(message)
            event = NodeProduct(
                request, open_product(request, self._service.slabs),
                node=self._membership.find(node_id), expected_seconds=message["expected_seconds"],
                stall_seconds=self._stall_seconds, hooks=self._service.open_hooks(request),
            ).run()  # fmt: skip
        except Exception as error:  # an error is an answer, and does not end this process
            if isinstance(error, NodeLost):
                self._membership.lose(node_id, str(error))
            event = describe_failure(error)
        self._service.end({**event, "job": message["job"]})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process; returns its exit status."""
    parser = argparse.ArgumentParser(prog="wavetrim.scheduler.cluster", description=__doc__)
    parser.add_argument("--fds", type=int, nargs=2, required=True, help="sockets: work, control")
    parser.add_argument("--address", required=True, help="Ray's address")
    parser.add_argument("--stall-seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    prepare_process()
    work, control = map(Channel, options.fds)
    slabs = MappedSlabs(device_index=None, send=work.send)
    ray.init(
        address=options.address, namespace="wavetrim", log_to_driver=False,
        logging_level=logging.WARNING,
    )  # fmt: skip
    service = Conversation(work, control, slabs)
    Head(service, stall_seconds=options.stall_seconds).serve()
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
