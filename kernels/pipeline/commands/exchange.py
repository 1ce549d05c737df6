"""The exchange: GPUs that share a product each fetch a part of B, and get the rest from each other.

The rows of B that a step needs are divided among the GPUs. Each GPU copies its piece over its own
link, and the other pieces from the other GPUs' memory. So B crosses the links once, whatever the
number of GPUs, and travels piece by piece, as the steps need it.

One thread enqueues the commands of all GPUs, a step at a time: first each GPU's own piece, with an
event after it, then the copies between GPUs, which wait for these events (`team`).
"""

from dataclasses import dataclass
from functools import lru_cache

from wavetrim.kernels.pipeline.places import PlacedStep
from wavetrim.kernels.transfer.peers import allow_access


@dataclass(frozen=True, slots=True)
class Seat:
    """One GPU's place at an exchange.

    Attributes:
        number: Number of the GPU.
        places: Address of B's first part on each GPU.
    """

    number: int
    places: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """The other GPUs, from the next one on, so that not all copy from the same one at first."""
        count = len(self.places)
        return tuple((self.number + offset) % count for offset in range(1, count))

    def cut_piece(self, depth: range, number: int) -> range:
        """The rows of a part of B that one GPU fetches over its own link; may be none.

        Args:
            depth: The rows of the part.
            number: Number of that GPU.
        """
        count = len(self.places)
        begin, end = (len(depth) * bound // count for bound in (number, number + 1))
        return depth[begin:end]


@lru_cache(maxsize=512)
def assign_seats(
    devices: tuple[int, ...], steps: tuple[tuple[PlacedStep, ...], ...]
) -> tuple[Seat, ...] | None:
    """The seats of the GPUs that exchange B; None if each must fetch all of it.

    Each must have room for all of B, since memory that one GPU fills again may still be read by
    another, and need the same parts in the same steps, and have access to the others' memory.

    Args:
        devices: CUDA's index of each GPU.
        steps: The steps of the product on each. Placed steps are kept, so the answer is, too.
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
        and one.step.buffer_columns == range(placed[-1].step.columns.stop)
        for placed in steps
        for one in placed
    )
    if not (stays and needs[0] and all(one == needs[0] for one in needs)):
        return None
    if not all(allow_access(device, other) for device in devices for other in devices):
        return None
    places = tuple(placed[needs[0][0][0]].b.pointer for placed in steps)
    return tuple(Seat(number, places) for number in range(len(devices)))
