"""The process that speaks with Ray, as the local engine's process speaks with the GPU.

The service starts it and sends it the same messages. It reports nodes that join ("node") and leave
("node_gone"); a run names the node that is to compute it. It ends when a socket closes, and Ray
ends the nodes' engines with it.
"""

import argparse
import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import ray

from wavetrim.scheduler.cluster.membership import Membership
from wavetrim.scheduler.cluster.product import NodeProduct
from wavetrim.scheduler.engine.arena import MappedSlabs, drop_slab
from wavetrim.scheduler.engine.channel import Channel, ProgressReport, RowsReport
from wavetrim.scheduler.engine.conversation import Conversation, prepare_process
from wavetrim.scheduler.engine.messages import RunRequest
from wavetrim.scheduler.engine.operands import open_operands
from wavetrim.scheduler.engine.run import describe_failure
from wavetrim.scheduler.errors import NodeLost
from wavetrim.scheduler.execution.rows_done import RowsDone

logger = logging.getLogger("wavetrim.scheduler.cluster")

_MOST_NODES: Final = 256
"""Most products that are with nodes at a time. Each has a thread that mostly waits. Chosen."""


class Head:
    """Takes runs from the service and has each computed by its node.

    Args:
        service: The conversation with the service.
        slabs: The memory that the service shares.
        stall_seconds: Least time that a block may take before its node is given up.
    """

    def __init__(self, service: Conversation, slabs: MappedSlabs, *, stall_seconds: float) -> None:
        self._service = service
        self._slabs = slabs
        self._stall_seconds = stall_seconds
        self._membership = Membership(service.send)
        self._threads = ThreadPoolExecutor(_MOST_NODES, thread_name_prefix="node-run")

    def serve(self) -> None:
        """Send `ready`, then work until the service sends `shutdown`."""
        self._service.send({"type": "ready", "pid": os.getpid()})
        threading.Thread(target=self._membership.watch, name="membership", daemon=True).start()
        self._service.serve(self._take)

    def _take(self, message: Mapping[str, Any], files: list[int]) -> None:
        match message["type"]:
            case "run":
                self._threads.submit(self._run, message)
            case "slab":
                self._slabs.add(message["slab"], files[0], message["size_bytes"])
            case "drop":
                drop_slab(self._slabs, message["slab"], self._service.send)
            case "end":
                self._membership.end(message["node"], message["reason"])

    def _run(self, message: Mapping[str, Any]) -> None:
        job = message["job"]
        try:
            event = self._multiply(
                RunRequest.from_message(message), message["node"], message["expected_seconds"]
            )
        except NodeLost as error:
            self._membership.lose(message["node"], str(error))
            event = {
                "type": "failed", "kind": "node", "message": str(error), "retryable": True,
                "poisoned": False,
            }  # fmt: skip
        except Exception as error:  # an error is an answer, and does not end this process
            event = describe_failure(error)
        self._service.end({**event, "job": job})

    def _multiply(
        self, request: RunRequest, node_id: str, expected_seconds: float
    ) -> dict[str, Any]:
        node = self._membership.find(node_id)
        if node is None:
            raise NodeLost(f"node {node_id[:12]} has left")
        operands = open_operands(request, self._slabs)
        rows_report = RowsReport(self._service.send, request.job, request.row_step)
        progress = ProgressReport(self._service.send, request.job)

        def tell(rows: int) -> None:
            if request.row_step:
                rows_report([range(rows)])
            if request.reports:
                progress(RowsDone(len(operands.out), nodes=rows))

        return NodeProduct(
            request, operands, node=node, expected_seconds=expected_seconds,
            stall_seconds=self._stall_seconds, final=tell,
            cancelled=lambda: self._service.is_cancelled(request.job),
        ).run()  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process; returns its exit status."""
    parser = argparse.ArgumentParser(prog="wavetrim.scheduler.cluster", description=__doc__)
    parser.add_argument("--fds", type=int, nargs=2, required=True, help="sockets: work, control")
    parser.add_argument("--address", required=True, help="Ray's address")
    parser.add_argument("--stall-seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    prepare_process()
    work, control = (Channel(socket.socket(fileno=fd)) for fd in options.fds)
    slabs = MappedSlabs(device_index=None, on_locked=lambda _slab: None)
    ray.init(
        address=options.address, namespace="wavetrim", log_to_driver=False,
        logging_level=logging.WARNING,
    )  # fmt: skip
    service = Conversation(work, control)
    Head(service, slabs, stall_seconds=options.stall_seconds).serve()
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
