"""Access of GPUs to each other's memory."""

from typing import Final

_ALREADY_ENABLED: Final = 704  # cudaErrorPeerAccessAlreadyEnabled


def allow_access(index: int, peer: int) -> bool:
    """Let one GPU read and write another's memory from now on; False if the machine cannot.

    Args:
        index: CUDA's index of the GPU that reads and writes.
        peer: Index of the GPU whose memory it is.
    """
    if index == peer:
        return True
    from cupy.cuda import Device, runtime

    if not runtime.deviceCanAccessPeer(index, peer):
        return False
    with Device(index):
        try:
            runtime.deviceEnablePeerAccess(peer)
        except runtime.CUDARuntimeError as error:
            if error.status != _ALREADY_ENABLED:
                raise
    return True
