"""The exchange: GPUs that share a product each fetch a part of B, and get the rest from each other.

The rows of B that a step needs are divided among the GPUs. Each GPU copies its piece over its own
link, and the other pieces from the other GPUs' memory. So the host sends B once, not once for each
GPU, and each piece when a step needs it.

One thread enqueues the commands of all GPUs (`team`): of each step first each GPU's own piece, with
an event after it, then the copies between GPUs, which wait for these events.
"""

from dataclasses import dataclass
from functools import lru_cache

from wavetrim.kernels.device import allow_access
from wavetrim.kernels.pipeline.prepared_steps import StepLayout


@dataclass(frozen=True, slots=True)
class ExchangeRank:
    """One of the GPUs of an exchange.

    Attributes:
        number: Its number, from 0.
        addresses: Address of B's first part on each GPU.
    """

    number: int
    addresses: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """The other GPUs, from the next one on, so that not all first copy from the same one."""
        count = len(self.addresses)
        return tuple((self.number + offset) % count for offset in range(1, count))

    def cut_piece(self, depth: range, number: int) -> range:
        """The rows of a part of B that one GPU copies over its own link; may be none.

        Args:
            depth: The rows of the part.
            number: Number of that GPU.
        """
        count = len(self.addresses)
        begin, end = (len(depth) * bound // count for bound in (number, number + 1))
        return depth[begin:end]


@lru_cache(maxsize=512)
def assign_ranks(
    devices: tuple[int, ...], steps: tuple[tuple[StepLayout, ...], ...]
) -> tuple[ExchangeRank, ...] | None:
    """The ranks of the GPUs in an exchange of B; None if each must fetch all of it.

    They exchange B only if all need the same parts of it in the same steps, have memory for all of
    it (a buffer that is filled again might still be read), and can access each other's memory.

    Args:
        devices: CUDA's index of each GPU.
        steps: The steps of the product on each; equal only if they are the same tuples.
    """
    needs = [
        tuple(
            (number, one.step.depth, one.step.columns, one.b.leading_dimension)
            for number, one in enumerate(placed)
            if one.step.loads_b
        )
        for placed in steps
    ]
    stays = all(
        one.step.buffer_depth == placed[-1].step.depth.stop
        and one.step.columns == range(placed[-1].step.columns.stop)
        for placed in steps
        for one in placed
    )
    if not (stays and needs[0] and all(one == needs[0] for one in needs)):
        return None
    if not all(allow_access(device, other) for device in devices for other in devices):
        return None
    addresses = tuple(placed[needs[0][0][0]].b.pointer for placed in steps)
    return tuple(ExchangeRank(number, addresses) for number in range(len(devices)))
