"""The engine process. It ends when a socket closes: no engine outlives its service."""

import argparse
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from wavetrim.kernels.device import DeviceInfo, explain_no_devices
from wavetrim.kernels.nvml import open_readings
from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.conversation import Channel, Conversation
from wavetrim.scheduler.engine.process import open_devices, prepare_process
from wavetrim.scheduler.engine.worker import Worker
from wavetrim.scheduler.options import MachineOptions

_READ_SECONDS: Final = 5.0
"""Time between two readings of the GPUs. Chosen: Prometheus asks every 15 to 60 s."""


def main() -> int:
    """Run the engine process; returns its exit status."""
    arguments = _parse_arguments()
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    prepare_process()
    work, control = map(Channel, arguments.fds)
    executor, profiles = open_devices(arguments.options)
    slabs = MappedSlabs(
        device_index=executor.devices[0].index if executor.devices else None, send=work.send
    )
    with executor:
        read = _take_readings(executor.devices)

        def describe() -> dict[str, Any]:
            told = {"corrections": profiles.find().corrections.list_all()}
            if not executor.devices:
                return told
            return {**told, **read(), "residents": executor.gpus.describe_residents()}

        service = Conversation(work, control, slabs, describe)
        reason = None if executor.devices else explain_no_devices(arguments.options.devices)
        Worker(service, executor, profiles, no_gpu_reason=reason).serve()
        slabs.close()
    return 0


def _take_readings(devices: Sequence[DeviceInfo]) -> Callable[[], dict[str, Any]]:
    """Read the GPUs every few seconds; returns what gives the latest readings, for a pong.

    A thread of its own reads: a driver that hangs must not keep a ping from being answered.
    """
    latest: dict[str, Any] = {}

    def take() -> None:
        read = open_readings(devices)
        while read is not None:
            latest["gpus"] = [reading.as_dict() for reading in read()]
            time.sleep(_READ_SECONDS)

    if devices:
        threading.Thread(target=take, name="gpu-readings", daemon=True).start()
    return lambda: latest


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="wavetrim.scheduler.engine", description=__doc__)
    parser.add_argument("--fds", type=int, nargs=2, required=True, help="sockets: work, control")
    parser.add_argument("--options", type=MachineOptions.read, required=True, help="as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
