"""A relay: a GPU that computes nothing of a product, but whose link carries a part of its bytes.

It has streams and memory of its own, not those of its GPU's pipeline, which may compute another
product meanwhile.
"""

import threading
from typing import TYPE_CHECKING, Any, NoReturn

from wavetrim.kernels.errors import is_out_of_memory
from wavetrim.kernels.gemm.prepared import bind_context
from wavetrim.kernels.pipeline.commands.command_buffer import CommandBuffer
from wavetrim.kernels.pipeline.commands.relay_commands import SLOT_BYTES, SLOTS
from wavetrim.kernels.pipeline.commands.submission import Submitter
from wavetrim.kernels.transfer.peers import allow_access

if TYPE_CHECKING:
    import ctypes


class Relay:
    """One GPU as a relay; opened by its first product. One product at a time.

    Args:
        device_index: CUDA's index of the GPU.

    Attributes:
        device_index: The same.
        lock: Held by whoever has the relay, as each product does that it carries bytes of.
    """

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index
        self._submitter: Submitter | None = None
        self._memory: Any = None
        self._streams: tuple[Any, ...] = ()
        self.lock = threading.Lock()

    def open(self, target: int, library: "ctypes.CDLL") -> int | None:
        """Make streams and memory, for the one who has taken it.

        Args:
            target: CUDA's index of the GPU that computes.
            library: The C library.

        Returns:
            Address of its slots; None if it has too little free memory for them, or cannot copy to
            and from that GPU's memory.

        Raises:
            CUDARuntimeError: The device failed.
        """
        import cupy

        if not allow_access(self.device_index, target):
            return None
        if self._memory is None:
            with cupy.cuda.Device(self.device_index):
                try:
                    memory = cupy.cuda.Memory(2 * SLOTS * SLOT_BYTES)
                except cupy.cuda.runtime.CUDARuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    return None
                bind_context()
                self._streams = tuple(cupy.cuda.Stream(non_blocking=True) for _ in range(4))
                self._submitter = Submitter(library, self._streams)
                self._memory = memory
        address: int = self._memory.ptr
        return address

    def prepare(self, commands: CommandBuffer) -> Submitter:
        """What submits its commands, with the events that they need; for the one who has taken it.

        Args:
            commands: The commands.
        """
        import cupy

        assert self._submitter is not None, "commands are recorded for slots, so it is open"
        with cupy.cuda.Device(self.device_index):
            self._submitter.reserve_events(commands)
        return self._submitter

    def recover(self, error: BaseException) -> NoReturn:
        """Wait until nothing is in flight, then raise the error; for the one who has taken it."""
        for stream in self._streams:
            stream.synchronize()
        raise error

    def close(self) -> None:
        """Free what it holds."""
        self._memory, self._submitter, self._streams = None, None, ()
