"""Division of C among persistent blocks: whole tiles, and a last wave divided along K (stream-K).

The unit of time is a step: BLOCK_K of K for one tile on one multiprocessor.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Final

FIX_UP_STEPS: Final = 5  # steps of 16 along K
"""Time to exchange partial sums when a last wave is divided. Chosen from 3 to 7 steps at
1024³…8192³, once 12, with tiles of 128x256x16 (H200, cd73791)."""


@dataclass(frozen=True, slots=True)
class Division:
    """How the tiles are divided among the blocks.

    Attributes:
        blocks: Blocks of the launch, one for each multiprocessor.
        shared_tiles: Tiles whose steps are divided evenly among all blocks; the others are computed
            whole.
        steps: Steps of the slowest block, with the cost of dividing.
    """

    blocks: int
    shared_tiles: int
    steps: int


@lru_cache(maxsize=1024)
def divide_tiles(tiles: int, steps_k: int, sms: int) -> Division:
    """The division with the fewest steps.

    Args:
        tiles: Tiles of C.
        steps_k: Steps of each tile.
        sms: Multiprocessors.
    """
    waves, rest = divmod(tiles, sms)
    plain = Division(min(tiles, sms), 0, (waves + (rest > 0)) * steps_k)
    if rest == 0:
        return plain
    # One block adds up a tile's partial sums: with even more blocks that takes longer.
    blocks = sms if waves else min(sms, tiles * max(1, isqrt(steps_k)))
    divided_steps = waves * steps_k + -(-rest * steps_k // blocks) + FIX_UP_STEPS
    divided = Division(blocks, rest, divided_steps)
    return min(plain, divided, key=lambda division: division.steps)
