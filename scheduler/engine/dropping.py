"""Lets go of a slab that the service takes back."""

import logging
import os
import time
from typing import Final

from wavetrim.scheduler.engine.arena import MappedSlabs
from wavetrim.scheduler.engine.channel import Send
from wavetrim.scheduler.errors import SlabError

logger = logging.getLogger(__name__)

_TRIES: Final = 100
"""Tries to unmap a slab, with a pause after each: five seconds in all; chosen."""

_PAUSE_SECONDS: Final = 0.05


def drop_slab(slabs: MappedSlabs, slab: int, send: Send) -> None:
    """Unmap a slab, and tell the service.

    The thread of a product that was just answered may still use it for a moment. If the slab stays
    in use, the process ends: the service waits for its memory, and has it back then.

    Args:
        slabs: The slabs.
        slab: Id of the slab.
        send: Sends a message to the service.

    Raises:
        DeviceFailure: CUDA refuses to unlock it.
    """
    for _ in range(_TRIES):
        try:
            slabs.remove(slab)
        except SlabError:
            time.sleep(_PAUSE_SECONDS)
            continue
        send({"type": "dropped", "slab": slab})
        return
    logger.error("slab %d is still in use: this process ends, and lets go of it", slab)
    os._exit(1)
